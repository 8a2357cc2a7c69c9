#include "decode/jpeg_sampling.h"

namespace endcap {
namespace {

// Samples of a component in each direction, of max_samp_factor at full size.
struct Sampling {
  int h;
  int v;
  bool operator==(const Sampling&) const = default;
};

Sampling GetSampling(const jpeg_decompress_struct& info, int component) {
  const jpeg_component_info& c = info.comp_info[component];
  return {c.h_samp_factor * ScaledBlockSize(c) / MinScaledBlockSize(info),
          c.v_samp_factor * ScaledBlockSize(c) / MinScaledBlockSize(info)};
}

Sampling FullSampling(const jpeg_decompress_struct& info) {
  return {info.max_h_samp_factor, info.max_v_samp_factor};
}

int CeilDivide(int a, int b) { return (a + b - 1) / b; }

}  // namespace

std::optional<ChromaUpsampling> GetUpsampling(const jpeg_decompress_struct& info) {
  if (info.jpeg_color_space == JCS_GRAYSCALE) return ChromaUpsampling::kGray;
  if (info.jpeg_color_space != JCS_YCbCr || info.num_components != 3) return std::nullopt;
  const Sampling full = FullSampling(info);
  const Sampling chroma = GetSampling(info, 1);
  if (GetSampling(info, 0) != full || GetSampling(info, 2) != chroma) return std::nullopt;
  if (chroma == full) return ChromaUpsampling::kNone;
  const bool columns = chroma.h * 2 == full.h;
  const bool rows = chroma.v * 2 == full.v;
  if ((!columns && chroma.h != full.h) || (!rows && chroma.v != full.v)) return std::nullopt;
  // Where the library takes the nearest sample instead of its filter.
  if (MinScaledBlockSize(info) == 1) return std::nullopt;
  if (columns && info.comp_info[1].downsampled_width <= 2) return std::nullopt;
  if (columns) return rows ? ChromaUpsampling::kColumnsAndRows : ChromaUpsampling::kColumns;
  return ChromaUpsampling::kRows;
}

bool HasFullLuma(const jpeg_decompress_struct& info) {
  if (info.jpeg_color_space == JCS_GRAYSCALE) return true;
  return info.jpeg_color_space == JCS_YCbCr && GetSampling(info, 0) == FullSampling(info);
}

PlaneSize GetPlaneSize(const jpeg_decompress_struct& info, int component) {
  const jpeg_component_info& c = info.comp_info[component];
  const int mcu_width = info.max_h_samp_factor * MinScaledBlockSize(info);
  const int mcus = CeilDivide(static_cast<int>(info.output_width), mcu_width);
  return {static_cast<int>(c.downsampled_width), static_cast<int>(c.downsampled_height),
          mcus * c.h_samp_factor * ScaledBlockSize(c), c.v_samp_factor * ScaledBlockSize(c)};
}

}  // namespace endcap
