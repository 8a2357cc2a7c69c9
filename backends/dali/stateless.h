#pragma once

#include <stdexcept>
#include <string>

#include "dali/pipeline/operator/operator.h"

namespace endcap::operators {

// An operator without state between batches, for all of DALI's devices. Pipelines with it can be
// checkpointed; its checkpoint is empty.
class StatelessOperator : public ::dali::OperatorBase {
 public:
  using OperatorBase::OperatorBase;

  void SaveState(::dali::OpCheckpoint&, ::dali::AccessOrder) override {}
  void RestoreState(const ::dali::OpCheckpoint&) override {}
  std::string SerializeCheckpoint(const ::dali::OpCheckpoint&) const override { return {}; }
  void DeserializeCheckpoint(::dali::OpCheckpoint&, const std::string& data) const override {
    if (data.empty()) return;
    throw std::invalid_argument(
        "the checkpoint has data for an operator that writes none: give one of this pipeline");
  }
};

}  // namespace endcap::operators
