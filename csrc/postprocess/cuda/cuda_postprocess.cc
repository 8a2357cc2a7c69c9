#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "box_decode/families.h"
#include "common/fail.h"
#include "cuda_library/kernel_table.h"
#include "cuda_runtime/runtime.h"
#include "endcap/postprocess.h"
#include "postprocess/cuda/detection_plan.h"
#include "postprocess/cuda/rle_memory.h"
#include "postprocess/device.h"

namespace endcap {
namespace {

// Pinned memory of one call at a time.
struct Staging {
  PinnedBuffer memory;
  CudaEvent used;  // the GPU's last use of it

  explicit Staging(int device_id) : memory(device_id), used(device_id) {}
  ~Staging() { used.WaitUnlessBroken(); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
};

// Pinned memory for more text is freed at once.
constexpr size_t kMaxKeptText = size_t{64} << 20;

std::span<const DetectionRecord> RecordsIn(const std::vector<uint8_t>& read, size_t count) {
  return {reinterpret_cast<const DetectionRecord*>(read.data()), count};
}

// Whether anything of an image that counts is in CPU memory.
bool HasHostInputs(std::span<const PostprocessInput> in) {
  return StagedBytes(in) != 0 || std::ranges::any_of(in, [](const PostprocessInput& input) {
           return input.status == 0 && input.geometry != nullptr &&
                  input.geometry_device != Device::kCuda;
         });
}

// Allocates and frees the device memory of a call in stream order: in a captured graph it belongs
// to the graph, so that replays and other calls share none of it. Pinned memory is pooled.
class CudaPostprocess final : public PostprocessDevice {
 public:
  CudaPostprocess(const PostprocessParams& params, int device_id)
      : params_(params), outputs_(PostprocessOutputs(params)), device_id_(device_id) {
    FillClassLimits(params.head, class_limits_);
  }

  int threads() const noexcept override { return 1; }

  std::vector<PostprocessItem> Run(std::span<const PostprocessInput> inputs,
                                   std::span<const PostprocessOutput> outputs,
                                   void* stream) override {
    CheckDetectionInputs(params_, inputs, device_id_);
    if (inputs.empty()) return {};
    const CudaTarget target = {device_id_, stream};
    RefuseCapture(target, "a postprocessor's call that waits for its results (not enqueue)");
    if (GivesRle(params_) && WantsRunLengths(outputs)) {
      return RunWithRunLengths(inputs, outputs, target);
    }
    return MakeItems(RecordsIn(LaunchAndRead(inputs, outputs, nullptr, target), inputs.size()));
  }

  void Enqueue(std::span<const PostprocessInput> inputs, std::span<const PostprocessOutput> outputs,
               void* stream) override {
    CheckDetectionInputs(params_, inputs, device_id_);
    if (WantsRunLengths(outputs)) {
      Fail(ErrorCode::kUnsupported,
           "the size of the RLE of masks (detection_rle) is known when the work "
           "is done: wait for it with Run, or take detection_masks, a bit for each pixel");
    }
    if (inputs.empty()) return;
    const CudaTarget target = {device_id_, stream};
    if (HasHostInputs(inputs) && CaptureIdCuda(target) != 0) {
      Fail(ErrorCode::kUnsupported,
           "a graph is being captured, which would keep the heads or the geometry that are in CPU "
           "memory as they are now: copy them to tensors on the GPU and give those");
    }
    Launch(inputs, outputs, nullptr, nullptr, target);
  }

 private:
  // Memory that no work of the GPU uses any more.
  std::unique_ptr<Staging> TakeStaging() {
    std::unique_ptr<Staging> staging;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        staging = std::move(idle_.front());  // the one that was used longest ago
        idle_.erase(idle_.begin());
      }
    }
    if (!staging) return std::make_unique<Staging>(device_id_);
    staging->used.Wait();
    return staging;
  }

  void ReturnStaging(std::unique_ptr<Staging> staging) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(staging));
  }

  // Device memory with the heads that are in CPU memory; null where there are none.
  std::shared_ptr<void> UploadHeads(std::span<const PostprocessInput> in,
                                    const CudaTarget& target) {
    const size_t bytes = StagedBytes(in);
    if (bytes == 0) return nullptr;
    std::unique_ptr<Staging> staging = TakeStaging();
    staging->memory.Reserve(bytes);
    StageHeads(in, staging->memory.data());
    std::shared_ptr<void> heads = AllocateCuda(bytes, target);
    CopyCuda(heads.get(), staging->memory.data(), bytes, target);
    staging->used.Record(target.stream);
    ReturnStaging(std::move(staging));
    return heads;
  }

  // records: device memory for one of each image, or null. runs: null where they are not wanted.
  void Launch(std::span<const PostprocessInput> in, std::span<const PostprocessOutput> out,
              DetectionRecord* records, const CudaRunLengths* runs, const CudaTarget& target) {
    const std::shared_ptr<void> heads = UploadHeads(in, target);
    const DetectionGroups groups = PlanGroups(params_, in);
    const std::shared_ptr<void> scratch = AllocateCuda(groups.bytes, target);
    DetectionMemory memory = {static_cast<uint8_t*>(scratch.get()),
                              static_cast<const uint8_t*>(heads.get()), records,
                              runs == nullptr ? RunLengthMemory{} : runs->memory(),
                              class_limits_.empty() ? nullptr : class_limits_.data()};
    for (size_t first = 0; first < in.size(); first += groups.images) {
      const size_t count = std::min(groups.images, in.size() - first);
      const DetectionLaunch launch = MakeDetectionLaunch(params_, groups, in.subspan(first, count),
                                                         out.subspan(first, count), memory);
      CheckCuda(Kernels().detect(device_id_, &launch, target.stream));
    }
  }

  // Launches and waits. Returns a DetectionRecord of each image; what `runs` noted follows.
  std::vector<uint8_t> LaunchAndRead(std::span<const PostprocessInput> in,
                                     std::span<const PostprocessOutput> out,
                                     const CudaRunLengths* runs, const CudaTarget& target) {
    const size_t bytes = in.size() * sizeof(DetectionRecord);
    const std::shared_ptr<void> records = AllocateCuda(bytes, target);
    Launch(in, out, static_cast<DetectionRecord*>(records.get()), runs, target);
    std::vector<uint8_t> read(bytes + (runs == nullptr ? 0 : runs->noted_bytes()));
    std::unique_ptr<Staging> staging = TakeStaging();
    staging->memory.Reserve(read.size());
    CopyCuda(staging->memory.data(), records.get(), bytes, target);
    if (runs != nullptr) runs->CopyNoted(staging->memory.data() + bytes);
    staging->used.Record(target.stream);
    SynchronizeCuda(target);
    std::memcpy(read.data(), staging->memory.data(), read.size());
    ReturnStaging(std::move(staging));
    return read;
  }

  std::vector<PostprocessItem> MakeItems(std::span<const DetectionRecord> records) const {
    std::vector<PostprocessItem> items;
    items.reserve(records.size());
    for (const DetectionRecord& record : records) items.push_back(MakeItem(params_.head, record));
    return items;
  }

  // Some images of a call that wants RLE: nothing, and a greater `room`, where there was
  // too little of it.
  std::vector<PostprocessItem> RunPart(std::span<const PostprocessInput> in,
                                       std::span<const PostprocessOutput> out, RleCapacity& room,
                                       const CudaTarget& target) {
    const CudaRunLengths runs(in.size(), static_cast<size_t>(params_.max_detections), room, target);
    const std::vector<uint8_t> read = LaunchAndRead(in, out, &runs, target);
    const std::span<const DetectionRecord> records = RecordsIn(read, in.size());
    const uint8_t* noted = read.data() + records.size_bytes();
    if (!runs.Fits(noted, room)) return {};
    std::vector<PostprocessItem> items = MakeItems(records);
    std::unique_ptr<Staging> staging = TakeStaging();
    runs.Read(noted, records, outputs_, out, staging->memory, items);
    if (staging->memory.capacity() <= kMaxKeptText) ReturnStaging(std::move(staging));
    return items;
  }

  // The images are taken together as far as the memory of their RLE stays within bounds. What
  // was needed is remembered, so that only the first ones are repeated. An image that alone takes
  // more than the GPU has fails by itself.
  std::vector<PostprocessItem> RunWithRunLengths(std::span<const PostprocessInput> in,
                                                 std::span<const PostprocessOutput> out,
                                                 const CudaTarget& target) {
    std::vector<PostprocessItem> items;
    size_t most = std::min(PlanGroups(params_, in).images, rooms_.Together());
    std::optional<RleCapacity> room;
    bool began_with_least = false;
    while (items.size() < in.size()) {
      const size_t count = std::min(most, in.size() - items.size());
      const auto part_in = in.subspan(items.size(), count);
      const auto part_out = out.subspan(items.size(), count);
      if (!room) room = rooms_.First(count);
      bool halves = false;
      std::vector<PostprocessItem> made;
      try {
        made = RunPart(part_in, part_out, *room, target);
        if (!made.empty()) rooms_.Keep(*room, count);
        halves = made.empty() && count > 1 && !room->IsSmall();
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kOutOfMemory) throw;
        halves = count > 1;
        if (count == 1 && !began_with_least) {  // others may have asked for more
          room = kSmallestRle;
          began_with_least = true;
          continue;
        }
        if (count == 1) {
          made.resize(1);
          made[0].status = {error.code(), error.what()};
          BlankOutputs(outputs_, part_out[0], error.code(), target);
        }
      }
      if (halves) most = count / 2;
      if (halves || !made.empty()) room.reset();
      if (!made.empty()) began_with_least = false;
      items.insert(items.end(), made.begin(), made.end());
    }
    return items;
  }

  PostprocessParams params_;
  std::vector<TensorSpec> outputs_;
  std::vector<float> class_limits_;
  int device_id_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Staging>> idle_;
  RleCapacities rooms_;
};

}  // namespace

std::unique_ptr<PostprocessDevice> MakeCudaPostprocess(const PostprocessParams& params,
                                                       int device_id) {
  if (!GridFits(params.head)) {
    Fail(ErrorCode::kUnsupported, "head ", HeadFamilyName(params.head.family),
         " with an anchor_grid of more than ", kMaxGridLevels, " levels or ", kMaxGridSizes,
         " sizes is read by the CPU only: use device='cpu', or instance_group { kind: KIND_CPU } ",
         "in a model's config");
  }
  RequireCuda(device_id);
  return std::make_unique<CudaPostprocess>(params, device_id);
}

}  // namespace endcap
