#include "preprocess/tensor/row_writer.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "preprocess/tensor/normalize.h"
#include "preprocess/tensor/row_store_simd.h"

namespace endcap {
namespace {

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

// For rows of four channels, by vector code (Highway). Equals TypedRowWriter bit for bit.
template <typename T>
class SimdRowWriter final : public TypedRowWriter<T> {
  using Base = TypedRowWriter<T>;
  static constexpr bool kFloating = std::is_same_v<T, float> || std::is_same_v<T, Half>;

 public:
  SimdRowWriter(const PreprocessParams& params, const Placement& placement,
                const TensorView& tensor)
      : Base(params, placement, tensor, 4) {
    for (size_t c = 0; c < 3; ++c) {
      // Arrays here are in the order of a row, red first, those of the base in the tensor's.
      const auto from = static_cast<size_t>(this->SourceChannel(static_cast<int>(c)));
      exact_[from] = this->normalize_[c];
      splits_ = Split(exact_[from], split_[from]) && splits_;
      if constexpr (!kFloating) {
        for (int pixel = 0; pixel < 256; ++pixel) {
          identity_ = identity_ && this->table_[c][static_cast<size_t>(pixel)] == pixel;
        }
      }
    }
  }

  void WriteRow(int y, const uint8_t* row) override {
    const int width = this->place_.visible_w;
    if constexpr (kFloating) {
      StoreBytes(row, width, splits_ ? split_.data() : nullptr, exact_.data(), Store(y));
    } else if (identity_) {
      CopyBytes(row, width, Store(y));
    } else {
      Base::WriteRow(y, row);
    }
  }

  void WriteRow(int y, const float* row) override {
    if constexpr (kFloating) {
      StoreFloats(row, this->place_.visible_w, exact_.data(), Store(y));
    } else {
      Base::WriteRow(y, row);
    }
  }

 private:
  RowStore Store(int y) const {
    const auto start = [&](int c) { return this->RowStart(y, this->SourceChannel(c)); };
    return {{start(0), start(1), start(2)},
            this->params_.dtype,
            this->params_.layout == Layout::kNhwc,
            this->params_.color == Color::kBgr};
  }

  std::array<ChannelNormalize, 3> exact_;
  std::array<SplitNormalize, 3> split_;
  bool splits_ = true;
  bool identity_ = true;  // 8-bit pixels are the tensor's elements
};

}  // namespace

std::unique_ptr<RowWriter> MakeRowWriter(const PreprocessParams& params, const Placement& placement,
                                         const TensorView& tensor, int row_channels) {
  std::unique_ptr<RowWriter> writer;
  WithElementType(params.dtype, [&](auto element) {
    using T = decltype(element);
    if (row_channels == 4) {
      writer = std::make_unique<SimdRowWriter<T>>(params, placement, tensor);
    } else {
      writer = std::make_unique<TypedRowWriter<T>>(params, placement, tensor, row_channels);
    }
  });
  return writer;
}

bool Split(const ChannelNormalize& normalize, SplitNormalize& split) {
  const double scale = normalize.scale / normalize.std;
  const double offset = normalize.mean == 0.0 ? 0.0 : -normalize.mean / normalize.std;
  // Multiples of `unit` below 2^24 units are float32 numbers, and so are their sums.
  const double largest = 255.0 * std::abs(scale) + std::abs(offset);
  const double unit = std::ldexp(1.0, std::ilogb(largest) + 1 - 23);
  const double coarse_scale = std::nearbyint(scale / unit) * unit;
  const double coarse_offset = std::nearbyint(offset / unit) * unit;
  split = {static_cast<float>(coarse_scale), static_cast<float>(scale - coarse_scale),
           static_cast<float>(coarse_offset), static_cast<float>(offset - coarse_offset)};
  for (int pixel = 0; pixel < 256; ++pixel) {
    const auto exact = static_cast<float>(normalize.Exact(pixel));
    const float applied = split.Apply(static_cast<float>(pixel));
    // As bits: 0 and -0 differ.
    if (std::bit_cast<uint32_t>(exact) != std::bit_cast<uint32_t>(applied)) return false;
  }
  return true;
}

}  // namespace endcap
