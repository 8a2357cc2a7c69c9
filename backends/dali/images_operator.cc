#include "images_operator.h"

#include <memory>
#include <stdexcept>
#include <string>

#include "dali/core/mm/memory.h"
#include "parameters.h"
#include "tensors.h"

namespace endcap::operators {
namespace {

using ::dali::CPUBackend;
using ::dali::GPUBackend;
using ::dali::TensorListShape;
using ::dali::TensorShape;
using ::dali::Workspace;

constexpr int64_t kGeometryValues = 8;
constexpr int kImageDims = 3;
enum Output { kImages, kGeometry, kStatus };

Parameters ReadParameters(const ::dali::OpSpec& spec) {
  Parameters given = GivenParameters(spec, PreprocessTable(), {"preset"});
  // By default a bad file must not end DALI's whole pipeline.
  if (!spec.HasArgument("on_error")) given.emplace_back("on_error", "blank");
  // If each sample has its own size, the default size must not be rejected.
  if (spec.HasTensorArgument("size")) given.emplace_back("size", "1");
  return given;
}

endcap_tensor_spec DefaultTensor(const endcap_preprocessor* preprocessor) {
  endcap_tensor_spec spec = {};
  Check(endcap_preprocessor_tensor(preprocessor, 0, 0, &spec));
  return spec;
}

TensorShape<> WithRows(int64_t rows, const TensorShape<>& shape) {
  return ::dali::shape_cat(rows, shape);
}

// Allocates pinned memory, whose release is stream-ordered.
template <typename T>
std::shared_ptr<T> AllocatePinned(size_t count, cudaStream_t stream) {
  namespace mm = ::dali::mm;
  return mm::alloc_raw_async_shared<T, mm::memory_kind::pinned>(count, mm::host_sync, stream);
}

template <typename T>
void CopyToGpu(const std::shared_ptr<T>& data, Workspace& ws, Output output) {
  auto& target = ws.Output<GPUBackend>(output);
  const TensorListShape<> shape = target.shape();
  ::dali::TensorList<CPUBackend> source;
  source.ShareData(data, sizeof(T) * shape.num_elements(), true, shape, target.type(),
                   target.device_id(), ws.stream());
  target.Copy(source, ws.stream());
}

template <typename Backend>
void CopySourceInfo(const Workspace& ws, const ::dali::TensorList<Backend>& input) {
  for (int i = 0; i < input.num_samples(); ++i) {
    const std::string& info = input.GetMeta(i).GetSourceInfo();
    if (info.empty()) continue;
    if (ws.OutputIsType<GPUBackend>(kImages)) {
      ws.Output<GPUBackend>(kImages).SetSourceInfo(i, info);
    } else {
      ws.Output<CPUBackend>(kImages).SetSourceInfo(i, info);
    }
  }
}

}  // namespace

ImagesOperator::ImagesOperator(const ::dali::OpSpec& spec, bool on_gpu)
    : StatelessOperator(spec), arguments_(spec), on_gpu_(on_gpu) {
  // The pool's tasks call the core concurrently, with one thread each; a GPU's call uses all
  // threads.
  const int32_t device = on_gpu ? spec.GetArgument<int>("device_id") : ENDCAP_CPU;
  preprocessor_ = NewPreprocessor(ReadParameters(spec), device, on_gpu ? num_threads_ : 1);
  default_tensor_ = DefaultTensor(preprocessor_.get());
  strict_ = endcap_preprocessor_blanks(preprocessor_.get()) == 0;
  layout_ = endcap_preprocessor_channels_last(preprocessor_.get()) != 0 ? "HWC" : "CHW";
  if (!arguments_.has_rois()) return;
  if (on_gpu) throw std::invalid_argument("rois go with the cpu operator only");
  layout_ = "N" + layout_;
}

bool ImagesOperator::SetupImpl(std::vector<::dali::OutputDesc>& outputs, const Workspace& ws) {
  const int count = ws.GetInputBatchSize(0);
  sizes_ = arguments_.Sizes(ws, count);
  rois_ = arguments_.Rois(ws, count);
  tensor_bytes_.resize(count);
  const bool rows = arguments_.has_rois();
  TensorListShape<> images(count, kImageDims + (rows ? 1 : 0));
  TensorListShape<> geometry(count, rows ? 2 : 1);
  TensorListShape<> status(count, 1);
  const ::dali::DALIDataType type = ToDaliType(default_tensor_.dtype);
  for (int i = 0; i < count; ++i) {
    const TensorShape<> image = GetSampleShape(i, count);
    tensor_bytes_[i] = CountBytes(type, image);
    const TensorShape<> values = {kGeometryValues};
    images.set_tensor_shape(i, rows ? WithRows(rois_[i].count, image) : image);
    geometry.set_tensor_shape(i, rows ? WithRows(rois_[i].count, values) : values);
    status.set_tensor_shape(i, {rows ? rois_[i].count : 1});
  }
  outputs = {{images, type}, {geometry, DALI_FLOAT}, {status, DALI_INT32}};
  return true;
}

// Throws for a sample whose outputs exceed the limits.
TensorShape<> ImagesOperator::GetSampleShape(int sample, int count) const {
  const auto check = [&](endcap_status call) {
    if (call != 0) FailItem(call, sample, count, endcap_last_error());
  };
  const ImageSize size = sizes_[sample];
  check(endcap_preprocessor_check_roi_tensors(
      preprocessor_.get(), static_cast<size_t>(rois_[sample].count), size.height, size.width));
  if (size.height == 0) return ToDaliShape(default_tensor_);
  endcap_tensor_spec tensor = {};
  check(endcap_preprocessor_tensor(preprocessor_.get(), size.height, size.width, &tensor));
  return ToDaliShape(tensor);
}

void ImagesOperator::RunImpl(Workspace& ws) {
  const std::vector<endcap_image> images = ReadImages(ws);
  if (on_gpu_) {
    ws.Output<GPUBackend>(kImages).SetLayout(layout_);
    RunBatch(ws, images);
  } else {
    ws.Output<CPUBackend>(kImages).SetLayout(layout_);
    RunSamples(ws, images);
  }
  if (ws.InputIsType<GPUBackend>(0)) {
    CopySourceInfo(ws, ws.Input<GPUBackend>(0));
  } else {
    CopySourceInfo(ws, ws.Input<CPUBackend>(0));
  }
}

void ImagesOperator::RunSamples(Workspace& ws, const std::vector<endcap_image>& images) {
  std::vector<SampleResult> results(images.size());
  auto& pool = ws.GetThreadPool();
  for (size_t i = 0; i < images.size(); ++i) {
    const endcap_image& image = images[i];
    // The pool runs the largest first, so that no large one is last.
    const size_t work = image.size_bytes + static_cast<size_t>(image.width) * image.height;
    pool.AddWork([&, i](int) { results[i] = RunSample(images[i], ws, static_cast<int>(i)); },
                 static_cast<int64_t>(work));
  }
  pool.RunAll();
  CheckResults(results, strict_);
}

SampleResult ImagesOperator::RunSample(const endcap_image& image, Workspace& ws, int sample) {
  const bool rows = arguments_.has_rois();
  const size_t count = rows ? static_cast<size_t>(rois_[sample].count) : 1;
  auto* tensor = static_cast<uint8_t*>(ws.Output<CPUBackend>(kImages).raw_mutable_tensor(sample));
  auto* geometry = ws.Output<CPUBackend>(kGeometry).mutable_tensor<float>(sample);
  auto* status = ws.Output<CPUBackend>(kStatus).mutable_tensor<int32_t>(sample);
  std::vector<endcap_preprocess_output> outputs;
  outputs.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = tensor_bytes_[sample];
    outputs.push_back({tensor + i * bytes, bytes, sizes_[sample].height, sizes_[sample].width,
                       geometry + i * kGeometryValues, status + i, 0});
  }
  SampleResult result;
  if (rows) {
    result.call = endcap_preprocessor_run_rois(preprocessor_.get(), &image, rois_[sample].data,
                                               outputs.data(), count, &result.status);
  } else {
    result.call = endcap_preprocessor_run(preprocessor_.get(), &image, outputs.data(), 1, nullptr);
  }
  if (result.call != 0) {
    result.message = endcap_last_error();
    return result;
  }
  if (rows) {  // the image's message follows those of the regions
    result.message = endcap_item_error(count);
  } else {
    result.status = status[0];
    result.message = endcap_item_error(0);
  }
  return result;
}

void ImagesOperator::RunBatch(Workspace& ws, const std::vector<endcap_image>& images) {
  const size_t count = images.size();
  if (count == 0) return;
  const auto geometry = AllocatePinned<float>(count * kGeometryValues, ws.stream());
  const auto status = AllocatePinned<int32_t>(count, ws.stream());
  std::vector<endcap_preprocess_output> outputs;
  outputs.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    outputs.push_back({ws.Output<GPUBackend>(kImages).raw_mutable_tensor(static_cast<int>(i)),
                       tensor_bytes_[i], sizes_[i].height, sizes_[i].width,
                       geometry.get() + i * kGeometryValues, status.get() + i, 0});
  }
  Check(endcap_preprocessor_run(preprocessor_.get(), images.data(), outputs.data(), count,
                                ws.stream()));
  std::vector<SampleResult> results(count);
  for (size_t i = 0; i < count; ++i) {
    if (status.get()[i] != 0) results[i] = {0, status.get()[i], endcap_item_error(i)};
  }
  CheckResults(results, strict_);
  CopyToGpu(geometry, ws, kGeometry);
  CopyToGpu(status, ws, kStatus);
}

}  // namespace endcap::operators
