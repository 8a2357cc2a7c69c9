#pragma once

#include <array>
#include <cstring>

#include "preprocess/tensor/normalize.h"
#include "preprocess/tensor/row_writer.h"

namespace endcap {

// The definition of writing rows, for tensors of T: a table of 256 values for each channel of 8-bit
// pixels, float32 step by step for pixels that are not quantized.
template <typename T>
class TypedRowWriter : public RowWriter {
 public:
  TypedRowWriter(const PreprocessParams& params, const Placement& placement,
                 const TensorView& tensor, int row_channels)
      : params_(params),
        place_(placement),
        data_(static_cast<T*>(tensor.data)),
        channels_(params.channels()),
        row_channels_(row_channels) {
    const bool planar = params.layout == Layout::kNchw;
    const ptrdiff_t plane = ptrdiff_t{params.height} * params.width;
    step_x_ = planar ? 1 : channels_;
    step_y_ = step_x_ * params.width;
    step_channel_ = planar ? plane : 1;
    for (int c = 0; c < channels_; ++c) {
      const auto i = static_cast<size_t>(c);
      normalize_[i] = {params.ResolvedScale(), params.mean[i], params.std[i]};
      for (int pixel = 0; pixel < 256; ++pixel) {
        table_[i][static_cast<size_t>(pixel)] = StoreAs<T>(normalize_[i].Exact(pixel));
      }
    }
  }

  void WriteRow(int y, const uint8_t* row) override {
    ForEachChannel(y, row, [this](size_t c, uint8_t pixel) { return table_[c][pixel]; });
  }
  void WriteRow(int y, const float* row) override {
    ForEachChannel(
        y, row, [this](size_t c, float pixel) { return StoreAs<T>(normalize_[c].Single(pixel)); });
  }

  void WritePadding() override {
    const int right = place_.out_x + place_.visible_w;
    const int bottom = place_.out_y + place_.visible_h;
    Fill(0, place_.out_y, 0, params_.width);
    Fill(bottom, params_.height, 0, params_.width);
    Fill(place_.out_y, bottom, 0, place_.out_x);
    Fill(place_.out_y, bottom, right, params_.width);
  }

 protected:
  // Where the first pixel of row `y` of the visible window goes, in channel `c`.
  T* RowStart(int y, int c) const {
    return data_ + step_y_ * (place_.out_y + y) + step_x_ * place_.out_x + step_channel_ * c;
  }
  // The channel of a row, R, G, B, that goes into channel `c` of the tensor.
  int SourceChannel(int c) const { return params_.color == Color::kBgr ? 2 - c : c; }

  const PreprocessParams& params_;
  const Placement& place_;
  std::array<ChannelNormalize, 3> normalize_;
  std::array<std::array<T, 256>, 3> table_;

 private:
  template <typename Pixel, typename Convert>
  void ForEachChannel(int y, const Pixel* row, Convert convert) {
    for (int c = 0; c < channels_; ++c) {
      const Pixel* from = row + SourceChannel(c);
      T* to = RowStart(y, c);
      for (int x = 0; x < place_.visible_w; ++x, from += row_channels_, to += step_x_) {
        *to = convert(static_cast<size_t>(c), *from);
      }
    }
  }

  void Fill(int y_begin, int y_end, int x_begin, int x_end) {
    if (y_begin >= y_end || x_begin >= x_end) return;
    const int runs = step_x_ == 1 ? channels_ : 1;
    for (int c = 0; c < runs; ++c) {
      T* first = data_ + step_y_ * y_begin + step_channel_ * c + step_x_ * x_begin;
      const auto count = static_cast<size_t>(step_x_ * (x_end - x_begin));
      for (size_t i = 0; i < count; ++i)
        first[i] =
            Padding(step_x_ == 1 ? static_cast<size_t>(c) : i % static_cast<size_t>(channels_));
      for (int y = 1; y < y_end - y_begin; ++y) {
        std::memcpy(first + step_y_ * y, first, count * sizeof(T));
      }
    }
  }

  T Padding(size_t channel) const {
    return table_[channel][static_cast<size_t>(params_.pad_value)];
  }

  T* data_;
  int channels_;
  int row_channels_;
  ptrdiff_t step_x_ = 0;
  ptrdiff_t step_y_ = 0;
  ptrdiff_t step_channel_ = 0;
};

}  // namespace endcap
