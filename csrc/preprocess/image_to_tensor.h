#pragma once

#include <memory>
#include <span>

#include "decode/bands.h"
#include "endcap/implementation.h"
#include "endcap/preprocess.h"
#include "preprocess/placement.h"
#include "preprocess/resize/resizer.h"
#include "preprocess/tensor/row_writer.h"

namespace endcap {

// What makes a tensor of the rows of an image, or of a part of one: its placement, its resizer and
// what the resizer writes to.
class TensorSink {
 public:
  // image_w, image_h: of the oriented image or part; transform: how its rows will come. `params`
  // and the tensor's memory must outlive the sink.
  TensorSink(Implementation implementation, const PreprocessParams& params, int image_w,
             int image_h, const OrientationTransform& transform, const TensorView& tensor);
  TensorSink(const TensorSink&) = delete;
  TensorSink& operator=(const TensorSink&) = delete;

  Resizer& resizer() noexcept { return *resizer_; }

  // After the last row: fills the padding. Throws kInternal when a row is missing.
  void Finish();

 private:
  Placement placement_;
  std::unique_ptr<RowWriter> writer_;
  std::unique_ptr<Resizer> resizer_;
};

// One image into one output. Throws Error when the image is bad; the output is then undefined.
// crew: threads that may help; null: there are none.
DecodeReport ImageToTensor(const PreprocessParams& params, const ImageView& image,
                           const PreprocessOutput& output, Crew* crew);

// The regions [first, first + statuses.size()) of one image into their outputs. A bad region gets
// its status and a blank tensor. Throws Error when the image is bad; the outputs are then
// undefined. Returns the decoder that ran, kAuto for none. crew: as above.
JpegDecoder RoisToTensors(const PreprocessParams& params, const PreprocessInput& input,
                          size_t first, std::span<ItemStatus> statuses, DecodeReport& report,
                          Crew* crew);

}  // namespace endcap
