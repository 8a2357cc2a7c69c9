#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "endcap/postprocess.h"
#include "postprocess/labels.h"
#include "triton_util/batch_model.h"
#include "triton_util/engine_pool.h"

namespace endcap::triton {

// The head's tensors, geometry and status -> detections or classes.
class PostprocessModel final
    : public BatchModel<PostprocessInput, PostprocessOutput, PostprocessItem> {
 public:
  PostprocessModel(const ModelConfig& config, const MetricFamilies& families,
                   const PostprocessParams& params, int threads, Labels labels);

 protected:
  Engine NewEngine(const Workplace& workplace) override;
  void Prepare(JobType& job, const Workplace& workplace) override;
  void Complete(JobType& job, const Workplace& workplace) override;

 private:
  void ReadInputs(JobType& job, const Workplace& workplace);
  void AllocateOutputs(JobType& job, const Workplace& workplace);
  void AddLabels(JobType& job, const Workplace& workplace);
  void AddRle(JobType& job, const Workplace& workplace);
  // Adds an output of so many strings for each item.
  void AddStrings(JobType& job, std::string_view name, int64_t count,
                  std::span<const std::byte> strings, const Workplace& workplace);

  PostprocessParams params_;
  int threads_;
  EnginePool<Postprocessor> cpu_;
  EnginePool<CudaPostprocessor> cuda_;
  Labels labels_;
  Counter truncated_;
  Counter detections_;
};

}  // namespace endcap::triton
