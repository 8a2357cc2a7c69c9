#pragma once

#include <memory>
#include <vector>

#include "bls/calls.h"
#include "bls/cascade_job.h"

namespace endcap::triton {

// Step 4: crops of any images through one classifier.
class ClassifyWork final : public Work {
 public:
  // crops: of one classifier, type and shape, those of one request beside each other.
  ClassifyWork(CascadeJob& job, std::vector<Crop> crops);

  size_t Limit() const override;
  std::shared_ptr<InnerCall> NewCall(const bls::Range& items) const override;
  void Take(const bls::Range& items, const std::shared_ptr<InnerCall>& call) override;

 private:
  const InnerModel& Model() const;
  bool WantsLabels(const bls::Range& items) const;

  CascadeJob* job_;
  std::vector<Crop> crops_;
};

// One for all crops of the open requests that can share calls; takes them out of the job.
std::vector<std::unique_ptr<Work>> ClassifyWorks(CascadeJob& job);

}  // namespace endcap::triton
