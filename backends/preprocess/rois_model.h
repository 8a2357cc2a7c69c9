#pragma once

#include <span>
#include <vector>

#include "endcap/preprocess.h"
#include "triton_util/batch_model.h"
#include "triton_util/engine_pool.h"

namespace endcap::triton {

// One request's image and regions; its outputs are one for each region.
struct RoisInput {
  ImageView image;
  std::span<const Roi> rois;
};

// `encoded`, `rois` -> images, geometry, status, a row of each for each region. A request is one
// image; the server does not batch such a model, for its requests have outputs of different
// lengths.
class RoisModel final : public BatchModel<RoisInput, std::vector<PreprocessOutput>, RoiItem> {
 public:
  RoisModel(const ModelConfig& config, const MetricFamilies& families,
            const PreprocessParams& params, int threads);

 protected:
  Engine NewEngine(const ExecutionContext& execution_context) override;
  int RequestThreadCount(const ExecutionContext& execution_context) const noexcept override;
  void Prepare(JobType& job, const ExecutionContext& execution_context) override;
  void Count(std::span<const RoiItem> items) override;
  bool ToleratesFailedItems() const noexcept override;

 private:
  void AllocateOutputs(JobType& job, int64_t roi_count, const ExecutionContext& execution_context);

  PreprocessParams params_;
  int threads_;
  EnginePool<Preprocessor> cpu_;
  EnginePool<CudaPreprocessor> cuda_;
  Counter decode_seconds_;
};

}  // namespace endcap::triton
