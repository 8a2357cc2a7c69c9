#include "endcap/class_map.h"

#include <png.h>

#include <algorithm>
#include <cmath>

#include "common/fail.h"
#include "common/half.h"
#include "masks/implementations.h"
#include "masks/masks.h"

namespace endcap {
namespace {

constexpr size_t kMaxIds = 256;
constexpr size_t kMaxPixels = size_t{1} << 28;

// The head's pixels, as sizes.
MaskPrototypes GetPixels(const ConstTensorView& head) {
  const auto side = [&](int from_end) {
    const int64_t size = head.shape[static_cast<size_t>(head.rank - from_end)];
    return static_cast<int>(std::min<int64_t>(size, kMaxMaskSide + 1));  // which is refused
  };
  return {nullptr, 1, side(2), side(1)};
}

ClassLogits ReadLogits(const ConstTensorView& head, Implementation implementation,
                       std::vector<float>& memory) {
  const auto count = static_cast<size_t>(head.size());
  const auto* values = static_cast<const float*>(head.data);
  if (head.dtype == DType::kFloat16) {
    memory.resize(count);
    HalvesToFloats({static_cast<const uint16_t*>(head.data), count}, implementation, memory.data());
    values = memory.data();
  }
  const auto width = static_cast<size_t>(head.shape[2]);
  const auto pixels = static_cast<size_t>(head.shape[1]) * width;
  const auto is_finite = [](float value) { return std::isfinite(value); };
  const auto at = static_cast<size_t>(std::find_if_not(values, values + count, is_finite) - values);
  if (at != count) {
    FailArgument("the logit of class ", at / pixels, " at row ", at % pixels / width, ", column ",
                 at % width, " is ", values[at],
                 ": logits must be finite; check the network's input");
  }
  return {values, count / pixels, pixels / width, width};
}

// The definition: each pixel on its own.
void MapLogitsScalar(const ClassLogits& logits, const MaskTaps& x, const MaskTaps& y,
                     uint8_t* map) {
  for (size_t row = 0; row < y.first.size(); ++row) {
    for (size_t column = 0; column < x.first.size(); ++column) {
      const int32_t left = x.first[column];
      const int32_t right = x.second[column];
      const float weight = x.weight[column];
      float best = logits.lowest();
      size_t id = 0;
      for (size_t c = 0; c < logits.classes; ++c) {
        const float* upper = logits.row(c, y.first[row]);
        const float* lower = logits.row(c, y.second[row]);
        const float value =
            Interpolate(Interpolate(upper[left], upper[right], weight),
                        Interpolate(lower[left], lower[right], weight), y.weight[row]);
        if (value > best) {
          best = value;
          id = logits.first_id() + c;
        }
      }
      *map++ = static_cast<uint8_t>(id);
    }
  }
}

void MapLogits(const ClassLogits& logits, const MaskAxes& axes, Implementation implementation,
               uint8_t* map) {
  MaskTaps x;
  MaskTaps y;
  x.Make(axes.x);
  y.Make(axes.y);
  return (implementation == Implementation::kSimd ? MapLogitsSimd : MapLogitsScalar)(logits, x, y,
                                                                                     map);
}

// The place that a pixel takes its class from: the pixel of the model's input first, then that
// pixel's place, in float32 as PyTorch does it.
int NearestPlace(const MaskAxis& axis, int pixel) {
  const float in_image = std::floor(static_cast<float>(pixel) * static_cast<float>(axis.scale));
  const double in_input = in_image + std::floor(axis.pad + 0.5);
  const float place = std::floor(static_cast<float>(in_input) * static_cast<float>(axis.ratio));
  return static_cast<int>(
      std::clamp(place, static_cast<float>(axis.low), static_cast<float>(axis.high)));
}

// ids: of the head's pixels.
void TakeNearest(const uint8_t* ids, const MaskAxes& axes, uint8_t* map) {
  std::vector<int32_t> columns(static_cast<size_t>(axes.x.pixels));
  for (int x = 0; int32_t& column : columns) column = NearestPlace(axes.x, x++);
  for (int y = 0; y < axes.y.pixels; ++y) {
    const uint8_t* row = ids + ptrdiff_t{NearestPlace(axes.y, y)} * axes.x.prototypes;
    map = std::transform(columns.begin(), columns.end(), map, [row](int32_t x) { return row[x]; });
  }
}

// Returns class ids as bytes.
template <typename T>
std::vector<uint8_t> NarrowIds(const ConstTensorView& head, const ClassMapPlan& plan) {
  const std::span given(static_cast<const T*>(head.data), static_cast<size_t>(head.size()));
  const int64_t count = CountMapIds(plan.num_classes);
  for (size_t i = 0; i < given.size(); ++i) {
    const auto id = static_cast<int64_t>(given[i]);
    if ((id >= 0 && id < count) || id == plan.ignore_label) continue;
    const auto width = static_cast<size_t>(head.shape[1]);
    FailArgument("the class id at row ", i / width, ", column ", i % width, " is ", id,
                 ": with num_classes ", plan.num_classes, " ids are 0 to ", count - 1,
                 ", or ignore_label, ", plan.ignore_label);
  }
  std::vector<uint8_t> ids(given.size());
  std::ranges::transform(given, ids.begin(), [](T id) { return static_cast<uint8_t>(id); });
  return ids;
}

}  // namespace

MaskSize ComputeClassMapSize(const ConstTensorView& head, const MaskPlan& plan) {
  const MaskSize size = ComputeMaskSize(GetPixels(head), plan);
  if (size.pixels() > kMaxPixels) {
    Fail(ErrorCode::kImageLimit, "a class map of ", size.width, "x", size.height,
         " pixels is larger than ", kMaxPixels, " pixels: check the geometry");
  }
  return size;
}

void ComputeClassMap(const ConstTensorView& head, const ClassMapPlan& plan,
                     Implementation implementation, uint8_t* map) {
  const MaskAxes axes = MakeMaskAxes(GetPixels(head), plan.mask);
  std::vector<uint8_t> ids;  // of the head's pixels
  if (head.dtype == DType::kUint8) {
    ids = NarrowIds<uint8_t>(head, plan);
  } else if (head.dtype == DType::kInt32) {
    ids = NarrowIds<int32_t>(head, plan);
  } else if (head.dtype == DType::kInt64) {
    ids = NarrowIds<int64_t>(head, plan);
  } else {
    std::vector<float> memory;
    const ClassLogits logits = ReadLogits(head, implementation, memory);
    if (!plan.nearest) return MapLogits(logits, axes, implementation, map);
    MaskPlan same = plan.mask;
    same.resolution = MaskResolution::kPrototype;
    ids.resize(logits.height * logits.width);
    MapLogits(logits, MakeMaskAxes(GetPixels(head), same), implementation, ids.data());
  }
  TakeNearest(ids.data(), axes, map);
}

void EncodeClassMapPng(const uint8_t* map, const MaskSize& size, std::string& png) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(size.width);
  image.height = static_cast<png_uint_32>(size.height);
  image.format = PNG_FORMAT_GRAY;
  image.flags = PNG_IMAGE_FLAG_FAST;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  png.resize(bytes);
  if (png_image_write_to_memory(&image, png.data(), &bytes, 0, map, 0, nullptr) == 0) {
    Fail(ErrorCode::kInternal, "libpng cannot write a class map of ", size.width, "x", size.height,
         " pixels: ", static_cast<const char*>(image.message));
  }
  png.resize(bytes);
}

void EncodeClassRles(const uint8_t* map, const MaskSize& size, int count,
                     std::vector<std::string>& rles) {
  const auto width = static_cast<size_t>(size.width);
  std::vector<uint8_t> columns;  // one behind the other
  columns.reserve(size.pixels());
  for (size_t x = 0; x < width; ++x) {
    for (size_t at = x; at < size.pixels(); at += width) columns.push_back(map[at]);
  }
  std::vector<RleCounts> counts(kMaxIds);
  for (auto begin = columns.begin(); begin != columns.end();) {
    const uint8_t id = *begin;
    const auto end = std::find_if(begin, columns.end(), [id](uint8_t each) { return each != id; });
    counts[id].Add(static_cast<uint32_t>(begin - columns.begin()),
                   static_cast<uint32_t>(end - columns.begin()));
    begin = end;
  }
  rles.assign(static_cast<size_t>(count), {});
  size_t bytes = 0;
  for (size_t id = 0; id < rles.size(); ++id) {
    if (!counts[id].empty()) counts[id].Write(static_cast<uint32_t>(size.pixels()), rles[id]);
    bytes += rles[id].size();
    CheckRleBytes(bytes, id + 1, size.width, size.height);
  }
}

}  // namespace endcap
