#pragma once

#include <memory>

#include "bls/calls.h"
#include "bls/cascade_job.h"

namespace endcap::triton {

// Step 1: the images through the model that detects.
class DetectWork final : public Work {
 public:
  explicit DetectWork(CascadeJob& job);

  size_t Limit() const override;
  std::shared_ptr<InnerCall> NewCall(const bls::Range& items) const override;
  void Take(const bls::Range& items, const std::shared_ptr<InnerCall>& call) override;

 private:
  const InnerModel& Model() const;
  bool Wants(const bls::Range& items, const TensorSpec& output) const;

  CascadeJob* job_;
  std::vector<size_t> images_;  // indices into CascadeJob::images
};

}  // namespace endcap::triton
