#include "box_decode/cuda/filters.h"
#include "cuda/launch.h"

namespace endcap {

void LaunchFilter(const HeadBatch& batch, cudaStream_t stream) {
  const size_t bytes = sizeof(CandidateState) * static_cast<size_t>(batch.count);
  Check(cudaMemsetAsync(batch.states, 0, bytes, stream), "cudaMemsetAsync");
  switch (batch.rule.layout) {
    case HeadLayout::kObjectnessRows:
      return LaunchFilterYolov5(batch, stream);
    case HeadLayout::kAnchorColumns:
      return batch.rule.multi_label != 0 ? LaunchFilterYolov8MultiLabel(batch, stream)
                                         : LaunchFilterYolov8(batch, stream);
    case HeadLayout::kScoreRows:
      return LaunchFilterScoreRows(batch, stream);
    case HeadLayout::kEnd2EndRows:
      return LaunchFilterEnd2End(batch, stream);
    case HeadLayout::kDetectionRows:
      return LaunchFilterDetectionRows(batch, stream);
    case HeadLayout::kLogits:
      return LaunchFilterClassification(batch, stream);
  }
}

}  // namespace endcap
