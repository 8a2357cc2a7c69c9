#include "preprocess/rois_model.h"

#include <memory>
#include <string>
#include <utility>

#include "endcap/thread_pool.h"
#include "preprocess/contracts.h"
#include "preprocess/encoded_files.h"

namespace endcap::triton {
namespace {

// The rows of an input `rois`, float32 [K, 4] in host memory.
std::span<const Roi> AsRois(const InputTensor& tensor) {
  static_assert(sizeof(Roi) == 4 * sizeof(float));
  const ConstTensorView view = tensor.Items().first();
  if (view.dtype != DType::kFloat32 || view.rank != 2 || view.shape[1] != 4) {
    throw Error(ErrorCode::kInvalidArgument,
                "input 'rois' is no FP32 [K, 4]: give a row x1, y1, x2, y2 for each region");
  }
  return {static_cast<const Roi*>(view.data), static_cast<size_t>(view.shape[0])};
}

std::vector<RoiImage> RoiImages(std::span<const RoisInput> inputs,
                                std::span<const std::vector<PreprocessOutput>> outputs) {
  std::vector<RoiImage> images;
  images.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    images.push_back({inputs[i].image, inputs[i].rois, outputs[i]});
  }
  return images;
}

}  // namespace

RoisModel::RoisModel(const ModelConfig& config, const MetricFamilies& families,
                     const PreprocessParams& params, int threads)
    : BatchModel(config, families),
      params_(params),
      threads_(threads),
      decode_seconds_(families.NewCounter("decode_seconds_total", metric_labels())) {
  LogParameters(DescribePreprocessParams(params));
}

RoisModel::Engine RoisModel::NewEngine(const ExecutionContext& execution_context) {
  if (!execution_context.on_gpu()) {
    auto preprocessor = cpu_.Get(EnginePool<Preprocessor>::kCpu, [this] {
      return std::make_shared<Preprocessor>(params_, threads_);
    });
    return [preprocessor](auto inputs, auto outputs) {
      return preprocessor->RunRois(RoiImages(inputs, outputs));
    };
  }
  const CudaTarget target = execution_context.target();
  auto preprocessor = cuda_.Get(target.device_id, [&] {
    return std::make_shared<CudaPreprocessor>(params_, target.device_id, threads_);
  });
  return [preprocessor, target](auto inputs, auto outputs) {
    return preprocessor->RunRois(RoiImages(inputs, outputs), target.stream);
  };
}

int RoisModel::RequestThreadCount(const ExecutionContext& execution_context) const noexcept {
  if (execution_context.on_gpu()) return 0;
  return threads_ == 0 ? AvailableCpuCount() : threads_;
}

void RoisModel::Prepare(JobType& job, const ExecutionContext& execution_context) {
  const InputReading reading{.batched = false,
                             .execution_context = execution_context};  // in host memory
  job.tensors.push_back(job.pending->request.GetInput(kEncoded, reading));
  job.tensors.push_back(job.pending->request.GetInput(kRois, reading));
  const Bytes file = EncodedFiles(job.tensors[0]).front();
  const std::span<const Roi> rois = AsRois(job.tensors[1]);
  const auto count = static_cast<int64_t>(rois.size());
  CheckRoiTensors(params_, count);
  job.inputs.push_back({ImageView::Encoded(file.data(), file.size()), rois});
  AllocateOutputs(job, count, execution_context);
}

void RoisModel::AllocateOutputs(JobType& job, int64_t roi_count,
                                const ExecutionContext& execution_context) {
  const MemoryPlace gpu_or_cpu = execution_context.memory();
  RequestOutputs& results = job.results;
  for (const TensorSpec& spec : PreprocessRoisOutputs(params_, roi_count)) {
    if (spec.name == "images") {
      results.Add(spec, 1, {gpu_or_cpu, gpu_or_cpu}, counters());
    } else {
      results.Add(spec, 1, {}, counters());
    }
  }
  results.Allocate();
  const std::vector<TensorSpec> of_roi = PreprocessOutputs(params_);
  const auto items = [&](size_t output) {
    const TensorView all = results[output].first();
    return OutputItemsAt(of_roi[output], all.data, {all.device, all.device_id});
  };
  std::vector<PreprocessOutput>& outputs = job.outputs.emplace_back();
  for (int64_t i = 0; i < roi_count; ++i) {
    outputs.push_back({items(0)[i], items(1).Data<float>(i), items(2).Data<int32_t>(i), 0});
  }
}

void RoisModel::Count(std::span<const RoiItem> items) {
  int64_t decode_ns = 0;
  for (const RoiItem& item : items) decode_ns += item.decode_ns;
  decode_seconds_.Add(static_cast<double>(decode_ns) * 1e-9);
}

bool RoisModel::ToleratesFailedItems() const noexcept {
  return params_.on_error == OnError::kBlank;
}

}  // namespace endcap::triton
