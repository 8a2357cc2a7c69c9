#pragma once

#include <array>

#include "decode/nvjpeg_object.h"

namespace endcap {

// nvJPEG's own kernels, one image after the other: Huffman decoding on the GPU where that backend
// takes the file (baseline), else on the calling thread.
class NvjpegKernels {
 public:
  // Throws kCuda, kOutOfMemory.
  explicit NvjpegKernels(const nvjpeg::Api& api);
  ~NvjpegKernels();
  NvjpegKernels(const NvjpegKernels&) = delete;
  NvjpegKernels& operator=(const NvjpegKernels&) = delete;

  // Enqueues the decoding of `bytes`, the file of `image`, which stays until the stream is done;
  // sets the image's results. Waits for the image before: nvJPEG may move the buffers of the one
  // that begins, and the CPU's part of this one is done by then. Throws kCuda, kOutOfMemory.
  void Decode(NvjpegImage& image, const uint8_t* bytes, nvjpeg::CudaStream stream);

 private:
  struct Backend {
    NvjpegObject<nvjpeg::Decoder> decoder;
    NvjpegObject<nvjpeg::JpegState> state;
  };
  // Of two images: the upload of one goes on while the other is parsed and decoded on the CPU.
  struct Slot {
    NvjpegObject<nvjpeg::JpegStream> parsed;
    NvjpegObject<nvjpeg::PinnedBuffer> pinned;
  };

  Backend MakeBackend(nvjpeg::Backend backend);
  Slot MakeSlot();
  NvjpegObject<nvjpeg::DecodeParams> MakeParams(nvjpeg::OutputFormat format);
  const Backend* BackendFor(nvjpeg::JpegStream parsed, nvjpeg::DecodeParams params) const;
  nvjpeg::Status Enqueue(const NvjpegImage& image, const uint8_t* bytes, nvjpeg::CudaStream stream);

  const nvjpeg::Api& api_;
  NvjpegObject<nvjpeg::Handle> handle_;
  NvjpegObject<nvjpeg::DecodeParams> luma_;
  NvjpegObject<nvjpeg::DecodeParams> color_;
  std::array<Slot, 2> slots_;
  NvjpegObject<nvjpeg::DeviceBuffer> device_;
  std::array<Backend, 2> backends_;  // best first
  size_t next_slot_ = 0;
  CUevent_st* image_done_ = nullptr;
};

}  // namespace endcap
