#include <array>
#include <type_traits>

#include "preprocess/tensor/row_store_simd.h"
#include "preprocess/tensor/row_writer.h"
#include "preprocess/tensor/typed_row_writer.h"

namespace endcap {
namespace {

constexpr int kRowChannels = 4;

template <typename T>
class SimdRowWriter final : public TypedRowWriter<T> {
  using Base = TypedRowWriter<T>;
  static constexpr bool kFloating = std::is_same_v<T, float> || std::is_same_v<T, Half>;

 public:
  SimdRowWriter(const PreprocessParams& params, const Placement& placement,
                const TensorView& tensor)
      : Base(params, placement, tensor, kRowChannels) {
    for (size_t c = 0; c < 3; ++c) {
      // Arrays here are in the order of a row, red first, those of the base in the tensor's.
      const auto from = static_cast<size_t>(this->SourceChannel(static_cast<int>(c)));
      exact_[from] = this->normalize_[c];
      splits_ = Split(exact_[from], split_[from]) && splits_;
      for (size_t pixel = 0; pixel < 256; ++pixel) {
        if constexpr (!kFloating) {
          identity_ =
              identity_ && static_cast<int>(this->table_[c][pixel]) == static_cast<int>(pixel);
        }
      }
    }
  }

  void WriteRow(int y, const uint8_t* row) override {
    if constexpr (kFloating) {
      StoreBytesAs(row, this->place_.visible_w, splits_ ? split_.data() : nullptr, exact_,
                   Store(y));
    } else if constexpr (std::is_same_v<T, uint8_t>) {
      if (identity_) {
        StoreBytes(row, this->place_.visible_w, Store(y));
      } else {
        Base::WriteRow(y, row);
      }
    } else {
      Base::WriteRow(y, row);
    }
  }

  void WriteRow(int y, const float* row) override {
    if constexpr (kFloating) {
      StoreFloatsAs(row, this->place_.visible_w, exact_, Store(y));
    } else {
      Base::WriteRow(y, row);
    }
  }

 private:
  RowStore<T> Store(int y) const {
    const auto start = [&](int c) { return this->RowStart(y, this->SourceChannel(c)); };
    return {{start(0), start(1), start(2)},
            this->params_.layout == Layout::kNhwc,
            this->params_.color == Color::kBgr};
  }

  std::array<ChannelNormalize, 3> exact_;
  std::array<SplitNormalize, 3> split_;
  bool splits_ = true;
  bool identity_ = true;
};

}  // namespace

template <typename T>
std::unique_ptr<RowWriter> MakeSimdRowWriter(const PreprocessParams& params,
                                             const Placement& placement, const TensorView& tensor) {
  return std::make_unique<SimdRowWriter<T>>(params, placement, tensor);
}

template std::unique_ptr<RowWriter> MakeSimdRowWriter<float>(const PreprocessParams&,
                                                             const Placement&, const TensorView&);
template std::unique_ptr<RowWriter> MakeSimdRowWriter<Half>(const PreprocessParams&,
                                                            const Placement&, const TensorView&);
template std::unique_ptr<RowWriter> MakeSimdRowWriter<uint8_t>(const PreprocessParams&,
                                                               const Placement&, const TensorView&);
template std::unique_ptr<RowWriter> MakeSimdRowWriter<int8_t>(const PreprocessParams&,
                                                              const Placement&, const TensorView&);

}  // namespace endcap
