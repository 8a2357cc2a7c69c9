#pragma once

#include "decode/planes.h"

namespace endcap {

// JPEG planes by the GPU's JPEG engine, through nvJPEG, for `decode: fast`: its inverse DCT rounds
// in its own way, and it conceals damage in the image data that libjpeg-turbo reports. Scaling by
// DCT, orientation and upsampling are left to the caller. The engine decodes baseline files of one
// scan; nvJPEG's own kernels are not used, because CPU threads decode what the engine does not.
//
// Plain data and functions of libendcap_cuda.so. The core calls them through the table of
// cuda_runtime/cuda_api.h and brings its own memory, stream and threads.

// Fills `facts`, and throws kCuda where nvJPEG cannot be found or the calling thread's device has
// no JPEG engine that this process may use. Thread-safe.
void ReadNvjpegFacts(NvjpegFacts& facts);

// Makes a decoder of the calling thread's device. It holds nvJPEG's objects, which grow to what is
// asked of them and are used again: in steady state nothing is allocated. Throws as
// ReadNvjpegFacts, and kOutOfMemory.
void* OpenNvjpeg();

// The decoder's work must be done. Thread-safe only for different decoders.
void CloseNvjpeg(void* decoder) noexcept;

// Reads the header of image->bytes and sets the image's results: kOk where the engine decodes this
// file into planes of these sizes (planes[i].data is not looked at), else kUnsupported or
// kCorruptImage. Any number of threads may call it at a time for one decoder, with images of their
// own: each call uses a bitstream object (nvjpegJpegStream_t) that no other call has meanwhile. Not
// at the same time as DecodeNvjpeg or CloseNvjpeg. Throws kCuda and kOutOfMemory for what is not
// the image's fault.
void ParseNvjpeg(void* decoder, NvjpegImage* image);

// Decodes the images whose status is kOk; all must have passed ParseNvjpeg with the same bytes,
// which decides how far the engine writes. What is enqueued on `stream` (a cudaStream_t of the
// decoder's device) afterwards finds the planes written.
//
// The bytes should be pinned memory, and must stay as they are until the work on `stream` is done.
// Nothing that is enqueued anywhere may still use the planes' memory: the engine was seen to write
// at once, whatever the stream has before it (github.com/meta-pytorch/torchcodec/pull/1634).
//
// An image that the engine refuses gets its own status; the others of the batch are decoded
// nevertheless. The host waits for earlier work on `stream`, which should therefore be the
// decoder's alone. One thread at a time for one decoder. Throws kCuda and kOutOfMemory for what is
// not one image's fault; then the decoder can only be closed.
void DecodeNvjpeg(void* decoder, const NvjpegDecodeBatch* batch, void* stream);

}  // namespace endcap
