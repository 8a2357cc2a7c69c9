#pragma once

#include <memory>
#include <vector>

#include "bls/calls.h"
#include "bls/cascade_job.h"

namespace endcap::triton {

// Step 3: an image's regions through one model that cuts them out, in one call, so that the image
// is decoded once.
class RoisWork final : public Work {
 public:
  RoisWork(CascadeJob& job, size_t rois_model);

  size_t Limit() const override { return 1; }
  std::shared_ptr<InnerCall> NewCall(const bls::Range& items) const override;
  void Take(const bls::Range& items, const std::shared_ptr<InnerCall>& call) override;

 private:
  struct Item {
    size_t image = 0;
    std::vector<bls::Chosen> rows;
  };

  const std::string& model() const;

  CascadeJob* job_;
  size_t rois_model_;
  std::vector<Item> items_;
};

}  // namespace endcap::triton
