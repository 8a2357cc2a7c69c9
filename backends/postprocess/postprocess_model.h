#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "endcap/contract.h"
#include "postprocess/labels.h"
#include "triton_util/core_model.h"
#include "triton_util/instance.h"

namespace endcap::triton {

// The head's tensors, geometry and status -> detections or classes.
class PostprocessModel final
    : public CoreModel<PostprocessInput, PostprocessOutput, PostprocessItem> {
 public:
  PostprocessModel(const ModelConfig& config, const MetricFamilies& families,
                   const PostprocessSettings& settings, Labels labels);

  std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) override;

 protected:
  void Read(JobType& job, const ExecutionContext& execution_context) override;
  void Trace(const PostprocessItem& item, RequestTrace& trace) const noexcept override;
  void Complete(JobType& job, const ExecutionContext& execution_context) override;

 private:
  void ReadInputs(JobType& job, const ExecutionContext& execution_context);
  void AllocateOutputs(JobType& job, const ExecutionContext& execution_context);
  void AddLabels(JobType& job, const ExecutionContext& execution_context);
  // Adds an output of `rows` strings for each item, empty ones where it has fewer.
  void AddRows(JobType& job, std::string_view name, int rows,
               std::span<const std::vector<std::string>> items,
               const ExecutionContext& execution_context);
  // Adds an output of that many strings for each item.
  void AddStrings(JobType& job, std::string_view name, int64_t count,
                  std::span<const std::byte> strings, const ExecutionContext& execution_context);

  PostprocessParams params_;
  int threads_;
  SharedByDevice<Postprocessor> postprocessors_;
  Labels labels_;
  Counter truncated_;
  Counter dropped_;
  Counter detections_;
};

}  // namespace endcap::triton
