#include "preprocess/resize/resize_arithmetic.h"
#include "preprocess/resize/row_filter.h"

namespace endcap {

void Opencv8Scalar::Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                               Intermediate* out) {
  for (int x = 0; x < columns.size(); ++x) {
    const size_t entry = columns.Offset(x);
    const uint8_t* left = source + ptrdiff_t{columns.index[entry]} * channels;
    const uint8_t* right = source + ptrdiff_t{columns.index[entry + 1]} * channels;
    for (int c = 0; c < channels; ++c) {
      *out++ = OpencvHorizontal(left[c], right[c], columns.fixed_weight[entry],
                                columns.fixed_weight[entry + 1]);
    }
  }
}

void Opencv8Scalar::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                             int samples, Output* out) {
  const size_t entry = axis.Offset(output);
  for (int i = 0; i < samples; ++i) {
    out[i] = OpencvVertical(rows[0][i], rows[1][i], axis.fixed_weight[entry],
                            axis.fixed_weight[entry + 1]);
  }
}

void OpencvFloat8Scalar::Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                                    Intermediate* out) {
  if (columns.fixed_weight.empty()) {
    FloatScalar::Horizontal(source, columns, channels, out);
    return;
  }
  for (int x = 0; x < columns.size(); ++x) {
    const size_t entry = columns.Offset(x);
    const uint8_t* left = source + ptrdiff_t{columns.index[entry]} * channels;
    const uint8_t* right = source + ptrdiff_t{columns.index[entry + 1]} * channels;
    for (int c = 0; c < channels; ++c) {
      *out++ = static_cast<float>(OpencvHorizontal(left[c], right[c], columns.fixed_weight[entry],
                                                   columns.fixed_weight[entry + 1]));
    }
  }
}

void OpencvFloat8Scalar::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                                  int samples, Output* out) {
  const size_t entry = axis.Offset(output);
  if (!axis.fixed_weight.empty()) {
    for (int i = 0; i < samples; ++i) {
      out[i] = OpencvVertical(static_cast<int32_t>(rows[0][i]), static_cast<int32_t>(rows[1][i]),
                              axis.fixed_weight[entry], axis.fixed_weight[entry + 1]);
    }
    return;
  }
  for (int i = 0; i < samples; ++i) {
    float sum = 0.0F;
    for (size_t k = 0; k < static_cast<size_t>(axis.taps); ++k) {
      sum += rows[k][i] * axis.float_weight[entry + k];
    }
    out[i] = OpencvRound(sum * axis.sum_scale);
  }
}

void Pillow8Scalar::Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                               Intermediate* out) {
  for (int x = 0; x < columns.size(); ++x) {
    const size_t entry = columns.Offset(x);
    for (int c = 0; c < channels; ++c) {
      int32_t sum = kPillowHalf;
      for (size_t k = 0; k < static_cast<size_t>(columns.taps); ++k) {
        sum += source[ptrdiff_t{columns.index[entry + k]} * channels + c] *
               columns.fixed_weight[entry + k];
      }
      *out++ = PillowRound(sum);
    }
  }
}

void Pillow8Scalar::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                             int samples, Output* out) {
  const size_t entry = axis.Offset(output);
  for (int i = 0; i < samples; ++i) {
    int32_t sum = kPillowHalf;
    for (size_t k = 0; k < static_cast<size_t>(axis.taps); ++k) {
      sum += rows[k][i] * axis.fixed_weight[entry + k];
    }
    out[i] = PillowRound(sum);
  }
}

void FloatScalar::Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                             Intermediate* out) {
  for (int x = 0; x < columns.size(); ++x) {
    const size_t entry = columns.Offset(x);
    for (int c = 0; c < channels; ++c) {
      float sum = 0.0F;
      for (size_t k = 0; k < static_cast<size_t>(columns.taps); ++k) {
        const float sample = source[ptrdiff_t{columns.index[entry + k]} * channels + c];
        sum += sample * columns.float_weight[entry + k];
      }
      *out++ = sum;
    }
  }
}

void FloatScalar::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                           int samples, Output* out) {
  const size_t entry = axis.Offset(output);
  for (int i = 0; i < samples; ++i) {
    float sum = 0.0F;
    for (size_t k = 0; k < static_cast<size_t>(axis.taps); ++k) {
      sum += rows[k][i] * axis.float_weight[entry + k];
    }
    out[i] = sum;
  }
}

}  // namespace endcap
