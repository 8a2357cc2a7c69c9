#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "endcap/preprocess.h"
#include "triton_util/batch_model.h"
#include "triton_util/instance.h"
#include "triton_util/tensor_contract.h"

namespace endcap::triton {

inline constexpr std::string_view kEncoded = "encoded";
inline constexpr std::string_view kRois = "rois";

// The image of one item, and its regions where the model has an input `rois`.
struct SourceImage {
  ImageView image;
  std::optional<std::span<const Roi>> rois;
};

// `encoded` -> images, geometry, status, one row for each image; or `encoded`, `rois` -> one row
// for each region. With regions a request is one image, and the server does not batch the model:
// requests have outputs of different lengths.
class PreprocessModel final
    : public BatchModel<SourceImage, std::vector<PreprocessOutput>, PreprocessItem> {
 public:
  // The model's tensors: `encoded`, one file as a string or as bytes, `rois` float32 [K, 4], and
  // the outputs of PreprocessOutputs.
  static std::vector<TensorContract> InputContracts(bool with_rois);
  static std::vector<TensorContract> OutputContracts(const PreprocessParams& params,
                                                     bool with_rois);

  PreprocessModel(const ModelConfig& config, const MetricFamilies& families,
                  const PreprocessParams& params, int threads);

 protected:
  Engine NewEngine(const ExecutionContext& execution_context) override;
  int RequestThreadCount(const ExecutionContext& execution_context) const noexcept override;
  void Prepare(JobType& job, const ExecutionContext& execution_context) override;
  void Count(std::span<const PreprocessItem> items) override;
  void Trace(const PreprocessItem& item, RequestTrace& trace) const noexcept override;
  bool ToleratesFailedItems() const noexcept override;

 private:
  void AllocateImages(JobType& job, const ExecutionContext& execution_context);
  void AllocateRegions(JobType& job, const ExecutionContext& execution_context);

  PreprocessParams params_;
  int threads_;
  bool with_rois_;
  EnginePool<Preprocessor> preprocessors_;
  Counter decode_seconds_;
};

}  // namespace endcap::triton
