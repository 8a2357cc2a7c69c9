#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "endcap/preprocess.h"
#include "preprocess/cuda/fused_launch.h"
#include "preprocess/placement.h"
#include "preprocess/resize/axis_taps.h"

namespace endcap {

// The taps of one axis without an index for each: tap k of output i reads sample first[i] + k, or
// the nearest of the source's. `first` may lie outside the source, and never decreases.
struct CompactTaps {
  int taps = 0;
  std::vector<int32_t> first;
  std::vector<int32_t> weight;  // [outputs][taps]; of float weights the bits

  int size() const noexcept { return static_cast<int>(first.size()); }
};

// Throws kInternal for taps that cannot be written so; those of MakeAxisTaps can.
CompactTaps Compact(const AxisTaps& axis, int source_size);

// Both axes of one image, in words of FusedLaunch::tables.
struct FusedTaps {
  FusedAxis columns;
  FusedAxis rows;
  bool fixed_weights = false;
  float sum_scale = 1.0F;
};

// Appends the taps of an oriented source of width x height pixels, which goes where `placement`
// says.
FusedTaps AppendTaps(const PreprocessParams& params, const Placement& placement, int width,
                     int height, std::vector<int32_t>& words);

// The host's part of one launch: the images' descriptions and taps in one block of memory, which is
// uploaded in one copy. Images of one size share their taps. Reusable; not thread-safe.
class FusedPlan {
 public:
  // `params` are valid.
  explicit FusedPlan(const PreprocessParams& params);

  // Forgets the images. Taps are kept for later batches as long as they are few.
  void Clear();

  size_t image_count() const noexcept { return images_.size(); }

  // An image whose tensor becomes zeros; and one that was added and becomes so.
  void AddBlank(void* output);
  void MakeBlank(size_t image);

  // `pixels`: the fields of FusedImage that describe the source, planes to yuv, with its size as
  // stored; the rest is filled in here. `placement`: of the oriented image. `orientation`: 1 to 8.
  void Add(const FusedImage& pixels, const Placement& placement, int orientation, void* output);

  // The block. On the device it must be aligned to 16 bytes.
  size_t block_bytes() const noexcept;
  void WriteBlock(uint8_t* block) const;

  // The launch, once the block is at `device_block`.
  FusedLaunch Launch(const uint8_t* device_block) const;

 private:
  const FusedTaps& GetTaps(const Placement& placement, int width, int height);
  void ReserveRows(FusedImage& image);
  bool ReserveRows(const FusedImage& image, FusedVariant variant);
  size_t tables_offset() const noexcept;
  size_t element_table_offset() const noexcept;

  PreprocessParams params_;
  FusedLaunch launch_;
  std::vector<uint8_t> element_table_;
  std::vector<FusedImage> images_;
  std::vector<int32_t> words_;
  std::map<std::tuple<int, int, Placement>, FusedTaps> taps_;  // by source size and placement
};

}  // namespace endcap
