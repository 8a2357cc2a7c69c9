#include "triton_util/request_outputs.h"

namespace endcap::triton {

void RequestOutputs::Add(const TensorSpec& spec, int64_t item_count, const Wish& wish,
                         StageCounters& counters) {
  Output& output = outputs_.emplace_back();
  output.spec = spec;
  output.place = wish.core;
  const size_t bytes = CountBytes(spec, item_count);
  if (!request_.WantsOutput(spec.name)) {
    output.staged = wish.even_if_unwanted;
    if (output.staged) output.offset = StagingAt(wish.core).Add(bytes, nullptr, {});
    return;
  }
  // A GPU writes to pinned memory without a wait and without a copy between.
  const bool to_host = wish.core.on_gpu() && !wish.preferred.on_gpu();
  const MemoryPlace promised =
      request_.OutputPlace(spec.name, bytes, to_host ? MemoryPlace::Pinned() : wish.preferred);
  const OutputMemory memory = sink_->AddOutput(spec, item_count, batched_, promised);
  if (promised.on_gpu() && memory.place != promised) counters.CountSpill();
  if (memory.place == wish.core) {
    output.in_place = memory.data;
    return;
  }
  output.staged = true;
  output.offset = StagingAt(wish.core).Add(bytes, memory.data, memory.place);
}

void RequestOutputs::Allocate() {
  host_.Allocate();
  device_.Allocate();
}

OutputItems RequestOutputs::operator[](size_t output) const noexcept {
  const Output& entry = outputs_[output];
  void* data = entry.in_place;
  if (entry.staged) data = (entry.place.on_gpu() ? device_ : host_).data() + entry.offset;
  return OutputItemsAt(entry.spec, data, entry.place);
}

void RequestOutputs::Copy() {
  host_.Copy();
  device_.Copy();
}

void RequestOutputs::Finish() noexcept {
  host_.Finish();
  device_.Finish();
}

}  // namespace endcap::triton
