#pragma once

#include "decode/nvjpeg_batch.h"

namespace endcap {

// JPEG planes by nvJPEG, for `decode: fast`: its inverse DCT rounds as it likes, and it conceals
// damage in the image data that libjpeg-turbo reports. Scaling by DCT, orientation and upsampling
// are not asked of it.
//
// A decoder belongs to one device and to one thread at a time; it holds the library's handles,
// states and buffers, which grow to what has been asked of it and are used again, so that steady
// state allocates nothing.

// Throws kCuda where nvJPEG cannot be found or refuses the calling thread's device.
void* OpenNvjpeg();

// Waits for the decoder's work.
void CloseNvjpeg(void* decoder) noexcept;

// Decodes each image by the GPU's JPEG engine where there is one that takes it, else by nvJPEG's
// kernels. What is enqueued on `stream` (a cudaStream_t of the decoder's device) afterwards finds
// the planes written. Nothing that is enqueued anywhere may still use the planes' memory: the
// engine was seen to write at once, whatever the stream has before it
// (github.com/meta-pytorch/torchcodec/pull/1634).
//
// The host waits for the call before of the same decoder and, where several images take the
// kernels, for all of them but the last; else for nothing. Throws kCuda and kOutOfMemory for what
// is not one image's fault.
void DecodeNvjpeg(void* decoder, const NvjpegDecodeBatch& batch, void* stream);

}  // namespace endcap
