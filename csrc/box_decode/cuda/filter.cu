#include "box_decode/cuda/filters.h"
#include "cuda/launch.h"

namespace endcap {

void LaunchFilter(const HeadBatch& batch, cudaStream_t stream) {
  const size_t bytes = sizeof(CandidateState) * static_cast<size_t>(batch.count);
  Check(cudaMemsetAsync(batch.states, 0, bytes, stream), "cudaMemsetAsync");
  switch (batch.rule.family) {
    case HeadFamily::kYolov5:
      return LaunchFilterYolov5(batch, stream);
    case HeadFamily::kYolov8:
      return batch.rule.multi_label != 0 ? LaunchFilterYolov8MultiLabel(batch, stream)
                                         : LaunchFilterYolov8(batch, stream);
    case HeadFamily::kRtdetr:
    case HeadFamily::kSsd:
      return LaunchFilterScoreRows(batch, stream);
    case HeadFamily::kEnd2End:
      return LaunchFilterEnd2End(batch, stream);
    case HeadFamily::kEfficientNms:
      return LaunchFilterEfficientNms(batch, stream);
    case HeadFamily::kClassification:
      return LaunchFilterClassification(batch, stream);
    default:  // PlainFamily gives no other
      return;
  }
}

}  // namespace endcap
