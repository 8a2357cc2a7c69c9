#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/runtime.h"
#include "endcap/postprocess.h"
#include "postprocess/detection_launch.h"

namespace endcap {

// Whether any image's are wanted.
bool WantsRunLengths(std::span<const PostprocessOutput> outputs) noexcept;

// How much the kernels may write: RunLengthMemory's two memories.
struct RunLengthRoom {
  size_t words = 0;  // of each launch's scratch
  size_t bytes = 0;  // of the text of all

  // For a first try.
  static RunLengthRoom Guess(size_t images, size_t images_of_launch) noexcept;
};

// The run lengths of one call's masks, in device memory. What the kernels found no room for is
// known when the call's work is done: then it is to be repeated with more.
class CudaRunLengths {
 public:
  // rows: of each image's outputs. Throws kOutOfMemory, kCuda.
  CudaRunLengths(size_t images, size_t launches, size_t rows, RunLengthRoom room,
                 const CudaTarget& target);

  RunLengthMemory OfLaunch(size_t launch) const noexcept;
  RunLengthText* texts() const noexcept;  // [images][rows], device memory

  // Enqueues the copy of what the kernels noted, so many bytes, to pinned memory.
  size_t noted_bytes() const noexcept { return noted_bytes_; }
  void CopyNoted(uint8_t* pinned) const;

  // From that copy, once it is there: whether there was room for all; else `room` becomes more.
  bool HadRoom(const uint8_t* noted, RunLengthRoom& room) const noexcept;

  // Fills the `rle` of every image that wants it and has not failed. Uses `pinned`, and waits. An
  // image whose strings take more than kMaxRleBytes fails, as it does on the CPU; its outputs are
  // blank then. records: [images].
  void Read(const uint8_t* noted, std::span<const DetectionRecord> records,
            std::span<const TensorSpec> specs, std::span<const PostprocessOutput> outputs,
            PinnedBuffer& pinned, std::vector<PostprocessItem>& items) const;

 private:
  size_t launches_;
  size_t rows_;
  RunLengthRoom room_;
  CudaTarget target_;
  size_t noted_bytes_;
  std::shared_ptr<void> noted_;  // bytes asked, words asked of each launch, texts
  std::shared_ptr<void> scratch_;
  std::shared_ptr<void> text_;
};

}  // namespace endcap
