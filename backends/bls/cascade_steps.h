#pragma once

#include <memory>
#include <vector>

#include "bls/cascade_job.h"
#include "bls/step_calls.h"

namespace endcap::triton {

// The steps of a cascade, in their order. Plans refer to the job; they leave out requests that are
// not open.

// Step 1: all images through the detection model.
std::unique_ptr<CallPlan> NewDetectPlan(CascadeJob& job);

// Step 2: returns the rows of an image's detections to classify. Throws ComposingModelError if the
// detections are inconsistent.
std::vector<bls::SelectedRow> SelectRows(const CascadeImage& image,
                                         const CascadeSettings& settings);

// Step 3: the selected regions through the models that crop them, one call for each image and
// model, so that each model decodes an image once. Regions with a status other than 0 give no crop.
std::vector<std::unique_ptr<CallPlan>> NewRoisPlans(CascadeJob& job);

// Step 4: the crops through the classifiers; those of one classifier, type and shape share calls.
// Moves the crops out of the job.
std::vector<std::unique_ptr<CallPlan>> NewClassifyPlans(CascadeJob& job);

// Step 5: writes the outputs that a request wants into its response. Throws ComposingModelError if
// the detection model did not give one of them; ApiError.
void WriteResponse(CascadeJob& job, CascadeRequest& request,
                   const ExecutionContext& execution_context, bool batched);

}  // namespace endcap::triton
