#include "preprocess/pixels/yuv_rows.h"

#include <algorithm>
#include <cstring>

#include "common/ycc_rows_simd.h"

namespace endcap {

YuvRows::YuvRows(Implementation implementation, const ImageView& image, int channels,
                 const ColumnSpan& columns)
    : implementation_(implementation),
      planes_(MakeYuvPlanes(image)),
      coefficients_(MakeYuvCoefficients(image.matrix, image.range)),
      jfif_(image.matrix == YuvMatrix::kBt601 && image.range == YuvRange::kFull),
      channels_(channels),
      columns_(columns),
      made_begin_(columns.begin),
      chroma_begin_(columns.begin),
      chroma_count_(columns.end - columns.begin) {
  if (HasColumnContext(planes_.upsampling)) {
    made_begin_ = columns.begin / 2 * 2;
    chroma_begin_ = std::max(columns.begin / 2 - 1, 0);
    chroma_count_ = std::min(columns.end / 2 + 2, planes_.chroma[0].width) - chroma_begin_;
  }
  const auto made = static_cast<size_t>(columns.end - made_begin_);
  pixels_.resize(made * static_cast<size_t>(channels) + kRowSlackBytes);
  if (implementation != Implementation::kSimd || channels == 1) return;
  const auto samples = static_cast<size_t>(chroma_count_) + kRowSlackBytes;
  luma_.resize(made + kRowSlackBytes);
  for (ChromaRow& row : chroma_) {
    for (std::vector<uint8_t>& component : row.samples) component.resize(samples);
  }
  for (std::vector<int16_t>& row : sums_) row.resize(samples + 2);
  for (std::vector<uint8_t>& row : blended_) row.resize(samples);
}

const uint8_t* YuvRows::Make(int y) {
  if (channels_ == 1) {
    MakeGray(y);
  } else if (implementation_ == Implementation::kSimd) {
    MakeSimd(y);
  } else {
    MakeScalar(y);
  }
  return pixels_.data() + ptrdiff_t{channels_} * (columns_.begin - made_begin_);
}

void YuvRows::MakeGray(int y) {
  const uint8_t* luma = planes_.luma.data + planes_.luma.row_stride_bytes * y;
  std::transform(luma + made_begin_, luma + columns_.end, pixels_.begin(),
                 [this](uint8_t sample) { return YuvPixelToGray(coefficients_, sample); });
}

void YuvRows::MakeScalar(int y) {
  const uint8_t* luma = planes_.luma.data + planes_.luma.row_stride_bytes * y;
  uint8_t* out = pixels_.data();
  for (int x = made_begin_; x < columns_.end; ++x, out += channels_) {
    const int cb = UpsampleChroma(planes_.upsampling, planes_.chroma[0], x, y);
    const int cr = UpsampleChroma(planes_.upsampling, planes_.chroma[1], x, y);
    const Rgb8 rgb = YuvPixelToRgb(coefficients_, luma[x], cb, cr);
    out[0] = rgb.r;
    out[1] = rgb.g;
    out[2] = rgb.b;
  }
}

const YuvRows::ChromaRow& YuvRows::ReadChroma(int y) {
  ChromaRow& row = chroma_[static_cast<size_t>(y) % chroma_.size()];
  if (row.y == y) return row;
  row.y = y;
  const auto at = [&](size_t component) {
    const ChromaPlane& plane = planes_.chroma[component];
    return plane.data + plane.row_stride * y + ptrdiff_t{plane.sample_step} * chroma_begin_;
  };
  if (planes_.chroma[0].sample_step == 2) {
    SplitPairs(at(0), chroma_count_, row.samples[0].data(), row.samples[1].data());
  } else {
    for (size_t i = 0; i < row.samples.size(); ++i) {
      std::memcpy(row.samples[i].data(), at(i), static_cast<size_t>(chroma_count_));
    }
  }
  return row;
}

void YuvRows::MakeSimd(int y) {
  std::memcpy(luma_.data(), planes_.luma.data + planes_.luma.row_stride_bytes * y + made_begin_,
              static_cast<size_t>(columns_.end - made_begin_));
  const bool context = HasRowContext(planes_.upsampling);
  const ChromaRow& near = ReadChroma(context ? y / 2 : y);
  const ChromaRow& far = context ? ReadChroma(FarChromaRow(y, planes_.chroma[0].height)) : near;
  if (HasColumnContext(planes_.upsampling)) {
    MakeDoubled(near, far);
  } else {
    MakeFull(near, far, y % 2 != 0);
  }
}

void YuvRows::MakeDoubled(const ChromaRow& near, const ChromaRow& far) {
  const bool blended = HasRowContext(planes_.upsampling);
  const bool from_first = chroma_begin_ == 0;
  const bool to_last = chroma_begin_ + chroma_count_ == planes_.chroma[0].width;
  for (size_t i = 0; i < sums_.size(); ++i) {
    int16_t* sums = sums_[i].data() + 1;
    if (blended) {
      BlendRows(near.samples[i].data(), far.samples[i].data(), chroma_count_, sums);
    } else {
      CopyRow(near.samples[i].data(), chroma_count_, sums);
    }
    if (from_first) sums[-1] = sums[0];
    if (to_last) sums[chroma_count_] = sums[chroma_count_ - 1];
  }
  const ptrdiff_t first = 1 + made_begin_ / 2 - chroma_begin_;
  const int16_t* cb = sums_[0].data() + first;
  const int16_t* cr = sums_[1].data() + first;
  const int width = columns_.end - made_begin_;
  if (jfif_) {
    DoubleYccToRgb(luma_.data(), cb, cr, width, blended, channels_, pixels_.data());
  } else {
    DoubleYuvToRgb(coefficients_, luma_.data(), cb, cr, width, blended, channels_, pixels_.data());
  }
}

void YuvRows::MakeFull(const ChromaRow& near, const ChromaRow& far, bool odd_row) {
  std::array<const uint8_t*, 2> chroma = {near.samples[0].data(), near.samples[1].data()};
  if (HasRowContext(planes_.upsampling)) {
    for (size_t i = 0; i < chroma.size(); ++i) {
      BlendRowsToBytes(chroma[i], far.samples[i].data(), chroma_count_, odd_row ? 2 : 1,
                       blended_[i].data());
      chroma[i] = blended_[i].data();
    }
  }
  const int width = columns_.end - made_begin_;
  if (jfif_) {
    YccToRgb(luma_.data(), chroma[0], chroma[1], width, channels_, pixels_.data());
  } else {
    YuvToRgb(coefficients_, luma_.data(), chroma[0], chroma[1], width, channels_, pixels_.data());
  }
}

}  // namespace endcap
