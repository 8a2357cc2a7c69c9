#pragma once

#include <span>
#include <vector>

#include "core.h"
#include "stateless.h"

namespace endcap::operators {

// Returns the number of outputs for the arguments. Throws for invalid parameters, as the core does.
int CountOutputs(const ::dali::OpSpec& spec);

// Raw heads, optionally geometry and status -> detections. On the CPU each sample is a task of
// DALI's thread pool; on a GPU the batch is one call on the workspace's stream.
class PostprocessOperator : public StatelessOperator {
 public:
  // on_gpu: whether the outputs are in memory of the pipeline's GPU. Throws as CountOutputs, and
  // for a number of inputs that does not fit the head.
  PostprocessOperator(const ::dali::OpSpec& spec, bool on_gpu);

  bool SetupImpl(std::vector<::dali::OutputDesc>& outputs, const ::dali::Workspace& ws) override;
  void RunImpl(::dali::Workspace& ws) override;

 private:
  // A batch's tensors, by sample, and the items that point to them.
  struct Batch {
    std::vector<std::vector<endcap_tensor>> heads;
    std::vector<std::vector<endcap_tensor>> outputs;
    std::vector<endcap_postprocess_item> items;
  };

  void RunSamples(::dali::Workspace& ws, Batch& batch, std::vector<SampleResult>& results);
  void RunBatch(::dali::Workspace& ws, Batch& batch, std::vector<SampleResult>& results);
  Batch Prepare(::dali::Workspace& ws) const;
  std::vector<endcap_tensor> Outputs(::dali::Workspace& ws, int sample) const;
  void SetGeometry(const ::dali::Workspace& ws, int sample, endcap_postprocess_item& item) const;
  std::vector<int32_t> Statuses(const ::dali::Workspace& ws, int count) const;

  bool on_gpu_;
  bool with_status_;
  PostprocessorHandle handle_;
  std::span<const endcap_tensor_spec> inputs_;   // of the head
  std::span<const endcap_tensor_spec> outputs_;  // of the core
  std::vector<size_t> wanted_;                   // of outputs_, in the operator's order
  int geometry_input_;
  int status_input_;
};

}  // namespace endcap::operators
