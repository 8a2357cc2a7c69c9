#include "preprocess/preprocess_model.h"

#include <memory>

#include "endcap/thread_pool.h"
#include "preprocess/contracts.h"
#include "preprocess/encoded_files.h"

namespace endcap::triton {
PreprocessModel::PreprocessModel(const ModelConfig& config, const MetricFamilies& families,
                                 const PreprocessParams& params, int threads)
    : BatchModel(config, families),
      params_(params),
      threads_(threads),
      decode_seconds_(families.NewCounter("decode_seconds_total", metric_labels())) {
  LogParameters(DescribePreprocessParams(params));
}

PreprocessModel::Engine PreprocessModel::NewEngine(const ExecutionContext& execution_context) {
  if (!execution_context.on_gpu()) {
    auto preprocessor = cpu_.Get(EnginePool<Preprocessor>::kCpu, [this] {
      return std::make_shared<Preprocessor>(params_, threads_);
    });
    return [preprocessor](auto images, auto outputs) { return preprocessor->Run(images, outputs); };
  }
  const CudaTarget target = execution_context.target();
  auto preprocessor = cuda_.Get(target.device_id, [&] {
    return std::make_shared<CudaPreprocessor>(params_, target.device_id, threads_);
  });
  return [preprocessor, target](auto images, auto outputs) {
    return preprocessor->Run(images, outputs, target.stream);
  };
}

int PreprocessModel::RequestThreadCount(const ExecutionContext& execution_context) const noexcept {
  if (execution_context.on_gpu()) return 0;
  return threads_ == 0 ? AvailableCpuCount() : threads_;
}

void PreprocessModel::Prepare(JobType& job, const ExecutionContext& execution_context) {
  const InputTensor& encoded = job.tensors.emplace_back(job.pending->request.GetInput(
      kEncoded, {.batched = batched(), .execution_context = execution_context}));
  for (const Bytes file : EncodedFiles(encoded)) {
    job.inputs.push_back(ImageView::Encoded(file.data(), file.size()));
  }
  AllocateOutputs(job, execution_context);
}

void PreprocessModel::AllocateOutputs(JobType& job, const ExecutionContext& execution_context) {
  const auto count = static_cast<int64_t>(job.inputs.size());
  const std::vector<TensorSpec> specs = PreprocessOutputs(params_);
  const MemoryPlace gpu_or_cpu = execution_context.memory();
  RequestOutputs& results = job.results;
  // CudaPreprocessor::Run needs the memory of every tensor.
  results.Add(specs[0], count, {gpu_or_cpu, gpu_or_cpu, gpu_or_cpu.on_gpu()}, counters());
  results.Add(specs[1], count, {}, counters());
  results.Add(specs[2], count, {}, counters());
  results.Allocate();
  for (int64_t i = 0; i < count; ++i) {
    job.outputs.push_back({results[0][i], results[1].Data<float>(i), results[2].Data<int32_t>(i),
                           static_cast<int>(i)});
  }
}

void PreprocessModel::Count(std::span<const PreprocessItem> items) {
  int64_t decode_ns = 0;
  for (const PreprocessItem& item : items) decode_ns += item.decode_ns;
  decode_seconds_.Add(static_cast<double>(decode_ns) * 1e-9);
}

bool PreprocessModel::ToleratesFailedItems() const noexcept {
  return params_.on_error == OnError::kBlank;
}

}  // namespace endcap::triton
