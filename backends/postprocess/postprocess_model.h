#pragma once

#include <span>
#include <vector>

#include "endcap/postprocess.h"
#include "postprocess/labels.h"
#include "triton_util/batch_model.h"

namespace endcap::triton {

// The head's tensors, geometry and status -> detections or classes.
class PostprocessModel final
    : public BatchModel<PostprocessInput, PostprocessOutput, PostprocessItem> {
 public:
  PostprocessModel(const ModelConfig& config, const MetricFamilies& families,
                   const PostprocessParams& params, int threads, Labels labels);

 protected:
  void Prepare(JobType& job) override;
  std::vector<PostprocessItem> Run(std::span<const PostprocessInput> inputs,
                                   std::span<const PostprocessOutput> outputs) override;
  void Complete(JobType& job) override;

 private:
  void ReadInputs(JobType& job);
  void AllocateOutputs(JobType& job);
  void AddLabels(JobType& job);

  Postprocessor postprocessor_;
  Labels labels_;
  Counter truncated_;
  Counter detections_;
};

}  // namespace endcap::triton
