#include "preprocess/tensor_sink.h"

#include "common/fail.h"

namespace endcap {

TensorSink::TensorSink(Implementation implementation, const PreprocessParams& params, int image_w,
                       int image_h, const OrientationTransform& transform, const TensorView& tensor)
    : placement_(Place(params, image_w, image_h)),
      writer_(MakeRowWriter(params, placement_, tensor, RowChannels(implementation, params))),
      resizer_(MakeResizer(implementation, params, placement_, transform, *writer_)) {}

void TensorSink::Take(const BandFormat& format, const uint8_t* pixels, ptrdiff_t row_stride_bytes) {
  resizer_->Begin(format);
  resizer_->Consume({pixels, row_stride_bytes, 0, format.height});
  Finish();
}

void TensorSink::Finish() {
  if (!resizer_->Complete()) Fail(ErrorCode::kInternal, "a row of the tensor was not written");
  writer_->WritePadding();
}

}  // namespace endcap
