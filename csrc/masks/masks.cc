#include "endcap/masks.h"

#include <cmath>

#include "common/fail.h"
#include "common/score_order.h"
#include "masks/implementations.h"
#include "masks/masks.h"

namespace endcap {
namespace {

// Memory that a thread keeps from image to image.
struct MaskScratch {
  MaskTaps x, y;
  std::vector<float> logits;
  PackedColumns packed;
  ColumnScratch columns;
  RleCounts counts;

  void Trim() {
    x.Trim();
    y.Trim();
    TrimScratch(logits);
    packed.Trim();
    columns.Trim();
    counts.Trim();
  }
};

// "detection 3", and which candidate that was.
std::string FormatName(const MaskDetections& detections, size_t n) {
  if (detections.indices.empty()) return "detection " + std::to_string(n);
  return DetectionName(n, detections.indices[n]);
}

void RefuseCoefficients(const MaskDetections& detections, size_t per_mask) {
  for (size_t i = 0; i < detections.coefficients.size(); ++i) {
    const float value = detections.coefficients[i];
    if (std::isfinite(value)) continue;
    FailArgument("mask coefficient ", i % per_mask, " of ", FormatName(detections, i / per_mask),
                 " is ", value, ": coefficients must be finite");
  }
}

void RefuseLogits(const MaskDetections& detections, size_t n, const MaskRegion& region,
                  const float* logits) {
  const size_t stride = LogitStride(region);
  for (size_t row = 0; row < region.prototype_rows.size(); ++row) {
    for (size_t column = 0; column < region.prototype_columns.size(); ++column) {
      const float value = logits[row * stride + column];
      if (std::isfinite(value)) continue;
      FailLogit(FormatName(detections, n), static_cast<size_t>(region.prototype_rows.begin) + row,
                static_cast<size_t>(region.prototype_columns.begin) + column, value);
    }
  }
}

void CheckImplementation(Implementation implementation) {
  if (implementation == Implementation::kCuda)
    Fail(ErrorCode::kUnsupported, "masks have no implementation on a GPU");
  if (implementation == Implementation::kSimd && SimdTarget().empty()) {
    Fail(ErrorCode::kUnsupported, "masks have no simd implementation on this machine: take scalar");
  }
}

// Whether each mask is a prototype, and no sum of them.
bool HasOwnPrototypes(const MaskDetections& detections) { return detections.coefficients.empty(); }

void CheckLengths(const MaskPrototypes& prototypes, const MaskDetections& detections) {
  if (prototypes.count < 1) FailArgument("there are ", prototypes.count, " prototypes: give one");
  const size_t n = detections.boxes_xyxy.size() / 4;
  const auto count = static_cast<size_t>(prototypes.count);
  const size_t coefficients = HasOwnPrototypes(detections) && n == count ? 0 : n * count;
  if (detections.boxes_xyxy.size() != 4 * n || detections.coefficients.size() != coefficients ||
      (!detections.indices.empty() && detections.indices.size() != n)) {
    FailArgument("masks came with ", detections.boxes_xyxy.size(), " numbers of boxes, ",
                 detections.coefficients.size(), " coefficients and ", detections.indices.size(),
                 " indices: each detection needs 4 and ", prototypes.count,
                 ", and an index if any has one");
  }
}

void MakeLogits(const MaskPrototypes& prototypes, const MaskDetections& detections, size_t n,
                const MaskRegion& region, Implementation implementation,
                std::vector<float>& logits) {
  static constexpr float kOne = 1.0F;
  MaskPrototypes summed = prototypes;
  const float* coefficients = &kOne;
  if (HasOwnPrototypes(detections)) {
    summed.count = 1;
    summed.data +=
        n * static_cast<size_t>(prototypes.height) * static_cast<size_t>(prototypes.width);
  } else {
    coefficients = detections.coefficients.data() + n * static_cast<size_t>(prototypes.count);
  }
  logits.resize(region.prototype_rows.size() * LogitStride(region));
  bool finite = false;
  if (implementation == Implementation::kSimd) {
    finite = MaskLogitsSimd(summed, coefficients, region, logits.data());
  } else {
    MaskLogitsScalar(summed, coefficients, region, logits.data());
  }
  if (!finite) RefuseLogits(detections, n, region, logits.data());
}

// Calls write(n, mask) for every detection; a mask with an empty region is empty.
template <typename Write>
void ForEachMask(const MaskPrototypes& prototypes, const MaskDetections& detections,
                 const MaskPlan& plan, Implementation implementation, MaskScratch& scratch,
                 Write write) {
  const TrimOnExit trim(scratch);
  CheckImplementation(implementation);
  CheckLengths(prototypes, detections);
  const MaskAxes axes = MakeMaskAxes(prototypes, plan);
  RefuseCoefficients(detections, static_cast<size_t>(prototypes.count));
  scratch.x.Make(axes.x);
  scratch.y.Make(axes.y);
  for (size_t n = 0; n < detections.boxes_xyxy.size() / 4; ++n) {
    const MaskRegion region = ComputeMaskRegion(detections.boxes_xyxy.data() + 4 * n, prototypes,
                                                plan, scratch.x, scratch.y);
    if (!region.empty()) {
      MakeLogits(prototypes, detections, n, region, implementation, scratch.logits);
    }
    write(n, MaskLogits{scratch.x, scratch.y, region, scratch.logits.data(), LogitStride(region)});
  }
}

MaskScratch& ThreadScratch() {
  thread_local MaskScratch scratch;
  return scratch;
}

}  // namespace

void FailLogit(const std::string& detection, size_t row, size_t column, float value) {
  FailArgument("the mask logit of ", detection, " at row ", row, ", column ", column,
               " of the prototypes is ", std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf"),
               ": it must be finite");
}

std::string DetectionName(size_t number, int32_t candidate) {
  return "detection " + std::to_string(number) + " (candidate " + std::to_string(candidate) + ")";
}

void WritePackedMasks(const MaskPrototypes& prototypes, const MaskDetections& detections,
                      const MaskPlan& plan, Implementation implementation, uint8_t* out) {
  const MaskSize size = ComputeMaskSize(prototypes, plan);
  MaskScratch& scratch = ThreadScratch();
  ForEachMask(prototypes, detections, plan, implementation, scratch,
              [&](size_t n, const MaskLogits& mask) {
                if (mask.region.empty()) return;
                uint8_t* bits = out + n * size.packed_bytes();
                if (implementation == Implementation::kSimd) {
                  PackMaskSimd(mask, size.packed_row_bytes(), scratch.packed, bits);
                } else {
                  PackMaskScalar(mask, size.packed_row_bytes(), bits);
                }
              });
}

void EncodeMasks(const MaskPrototypes& prototypes, const MaskDetections& detections,
                 const MaskPlan& plan, Implementation implementation,
                 std::vector<std::string>& rle) {
  const MaskSize size = ComputeMaskSize(prototypes, plan);
  const auto height = static_cast<size_t>(size.height);
  MaskScratch& scratch = ThreadScratch();
  size_t bytes = 0;
  rle.resize(detections.boxes_xyxy.size() / 4);
  ForEachMask(prototypes, detections, plan, implementation, scratch,
              [&](size_t n, const MaskLogits& mask) {
                scratch.counts.Clear();
                if (!mask.region.empty() && implementation == Implementation::kSimd) {
                  AddRunsSimd(mask, height, scratch.columns, scratch.counts);
                } else if (!mask.region.empty()) {
                  AddRunsScalar(mask, height, scratch.counts);
                }
                scratch.counts.Write(static_cast<uint32_t>(size.pixels()), rle[n]);
                bytes += rle[n].size();
                CheckRleBytes(bytes, n + 1, size.width, size.height);
              });
}

}  // namespace endcap
