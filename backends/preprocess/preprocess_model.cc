#include "preprocess/preprocess_model.h"

#include <utility>

#include "preprocess/contracts.h"

namespace endcap::triton {
namespace {

// The encoded files of a request: one a BYTES element, or one a row of UINT8.
std::vector<Bytes> EncodedFiles(const InputTensor& encoded) {
  const bool strings = encoded.data_type() == TRITONSERVER_TYPE_BYTES;
  std::vector<Bytes> files = strings ? encoded.Strings() : encoded.Blobs();
  if (std::cmp_not_equal(files.size(), encoded.item_count())) {
    throw Error(ErrorCode::kInvalidArgument,
                "input 'encoded' has " + std::to_string(files.size()) + " elements for " +
                    std::to_string(encoded.item_count()) + " images; it takes one for each");
  }
  return files;
}

}  // namespace

PreprocessModel::PreprocessModel(const ModelConfig& config, const MetricFamilies& families,
                                 const PreprocessParams& params, int threads)
    : BatchModel(config, families),
      preprocessor_(params, threads),
      decode_seconds_(families.NewCounter("decode_seconds_total", metric_labels())) {
  LogParameters(DescribePreprocessParams(params));
}

void PreprocessModel::Prepare(JobType& job) {
  const InputTensor& encoded =
      job.tensors.emplace_back(job.exchange->request.GetInput(kEncoded, batched()));
  for (const Bytes file : EncodedFiles(encoded)) {
    job.inputs.push_back(ImageView::Encoded(file.data(), file.size()));
  }
  AllocateOutputs(job);
}

void PreprocessModel::AllocateOutputs(JobType& job) {
  const auto count = static_cast<int64_t>(job.inputs.size());
  const std::vector<TensorSpec> specs = PreprocessOutputs(preprocessor_.params());
  OutputItems images = AddOutputIfWanted(*job.exchange, specs[0], count);
  const OutputItems geometry = AddOutputIfWanted(*job.exchange, specs[1], count);
  const OutputItems status = AddOutputIfWanted(*job.exchange, specs[2], count);
  if (!images.present()) images = ScratchItems(specs[0], count, job.scratch);
  for (int64_t i = 0; i < count; ++i) {
    job.outputs.push_back(
        {images[i], geometry.Data<float>(i), status.Data<int32_t>(i), static_cast<int>(i)});
  }
}

std::vector<PreprocessItem> PreprocessModel::Run(std::span<const ImageView> images,
                                                 std::span<const PreprocessOutput> outputs) {
  std::vector<PreprocessItem> items = preprocessor_.Run(images, outputs);
  int64_t decode_ns = 0;
  for (const PreprocessItem& item : items) decode_ns += item.decode_ns;
  decode_seconds_.Add(static_cast<double>(decode_ns) * 1e-9);
  return items;
}

bool PreprocessModel::ToleratesFailedItems() const noexcept {
  return preprocessor_.params().on_error == OnError::kBlank;
}

}  // namespace endcap::triton
