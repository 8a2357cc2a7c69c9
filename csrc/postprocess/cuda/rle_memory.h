#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda_runtime/runtime.h"
#include "endcap/postprocess.h"
#include "postprocess/cuda/detection_launch.h"

namespace endcap {

// Whether any image's are wanted.
bool WantsRunLengths(std::span<const PostprocessOutput> outputs) noexcept;

// No detection, with the status of what went wrong, in device memory; waits.
void BlankOutputs(std::span<const TensorSpec> specs, const PostprocessOutput& output,
                  ErrorCode code, const CudaTarget& target);

// How much the kernels may write: RunLengthMemory's two memories.
struct RleCapacity {
  size_t words = 0;  // of scratch
  size_t bytes = 0;  // of text

  // So much may be taken for several images together.
  bool IsSmall() const noexcept;
};

// Of an image with a detection or two.
inline constexpr RleCapacity kSmallestRle = {size_t{1} << 16, size_t{1} << 14};

// What images have needed, as a guess for the next ones. Thread-safe.
class RleCapacities {
 public:
  RleCapacity First(size_t images);
  // How many images are modest together, by what one has needed; at least one.
  size_t Together();
  void Keep(const RleCapacity& needed, size_t images);

 private:
  std::mutex mutex_;
  RleCapacity of_image_;
};

// The RLE of one launch's masks, in device memory. What the kernels found no room for is
// known when the work is done: then it is to be repeated with more.
class CudaRunLengths {
 public:
  // rows: of each image's outputs. Throws kOutOfMemory, kCuda.
  CudaRunLengths(size_t images, size_t rows, RleCapacity room, const CudaTarget& target);

  RunLengthMemory memory() const noexcept;

  // Enqueues the copy of that many bytes of the kernels' notes to pinned memory.
  size_t noted_bytes() const noexcept { return noted_bytes_; }
  void CopyNoted(uint8_t* pinned) const;

  // From that copy, once it is there: whether there was room for all; else `room` becomes more.
  bool Fits(const uint8_t* noted, RleCapacity& room) const noexcept;

  // Fills the `rle` of every image that wants it and has not failed. Uses `pinned`, and waits. An
  // image whose strings take more than kMaxRleBytes fails, as it does on the CPU; its outputs are
  // blank then. records: [images].
  void Read(const uint8_t* noted, std::span<const DetectionRecord> records,
            std::span<const TensorSpec> specs, std::span<const PostprocessOutput> outputs,
            PinnedBuffer& pinned, std::vector<PostprocessItem>& items) const;

 private:
  size_t images_;
  size_t rows_;
  RleCapacity room_;
  CudaTarget target_;
  size_t noted_bytes_;
  std::shared_ptr<void> noted_;  // words and bytes asked, bytes of images, texts
  std::shared_ptr<void> scratch_;
  std::shared_ptr<void> text_;
};

}  // namespace endcap
