#pragma once

#include <span>
#include <vector>

#include "endcap/preprocess.h"
#include "triton_util/batch_model.h"

namespace endcap::triton {

// `encoded` -> images, geometry, status.
class PreprocessModel final : public BatchModel<ImageView, PreprocessOutput, PreprocessItem> {
 public:
  PreprocessModel(const ModelConfig& config, const MetricFamilies& families,
                  const PreprocessParams& params, int threads);

 protected:
  void Prepare(JobType& job) override;
  std::vector<PreprocessItem> Run(std::span<const ImageView> images,
                                  std::span<const PreprocessOutput> outputs) override;
  bool ToleratesFailedItems() const noexcept override;

 private:
  void AllocateOutputs(JobType& job);

  Preprocessor preprocessor_;
  Counter decode_seconds_;
};

}  // namespace endcap::triton
