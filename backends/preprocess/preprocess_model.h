#pragma once

#include <span>
#include <vector>

#include "endcap/preprocess.h"
#include "triton_util/batch_model.h"
#include "triton_util/engine_pool.h"

namespace endcap::triton {

// `encoded` -> images, geometry, status.
class PreprocessModel final : public BatchModel<ImageView, PreprocessOutput, PreprocessItem> {
 public:
  PreprocessModel(const ModelConfig& config, const MetricFamilies& families,
                  const PreprocessParams& params, int threads);

 protected:
  Engine NewEngine(const ExecutionContext& execution_context) override;
  int RequestThreadCount(const ExecutionContext& execution_context) const noexcept override;
  void Prepare(JobType& job, const ExecutionContext& execution_context) override;
  void Count(std::span<const PreprocessItem> items) override;
  bool ToleratesFailedItems() const noexcept override;

 private:
  void AllocateOutputs(JobType& job, const ExecutionContext& execution_context);

  PreprocessParams params_;
  int threads_;
  EnginePool<Preprocessor> cpu_;
  EnginePool<CudaPreprocessor> cuda_;
  Counter decode_seconds_;
};

}  // namespace endcap::triton
