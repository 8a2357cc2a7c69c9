#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "cuda/runtime.h"
#include "endcap/postprocess.h"
#include "postprocess/cuda_run_lengths.h"
#include "postprocess/detection_plan.h"
#include "postprocess/output_rows.h"

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

constexpr const char* kUseCpu =
    " by the CPU only: use device='cpu', or instance_group { kind: KIND_CPU } in a model's config";

void RefuseForCuda(const PostprocessParams& params) {
  const HeadParams& head = params.head;
  if (head.family == HeadFamily::kSsd && !GridFits(head)) {
    Fail(ErrorCode::kUnsupported, "head ssd with an anchor_grid of more than ", kMaxGridLevels,
         " levels or ", kMaxGridSizes, " sizes is read", kUseCpu);
  }
}

}  // namespace

// A call's device memory is taken and given back in the order of its stream: in a captured graph it
// is the graph's own, so that replays and other calls never meet in it. Pinned memory is pooled.
struct CudaPostprocessor::Engine {
  PostprocessParams params;
  std::vector<TensorSpec> outputs;
  int device_id;
  std::mutex mutex;
  std::vector<std::unique_ptr<Staging>> idle;
  RunLengthRoom room;  // the most that a call has needed

  // Memory that no work of the GPU uses any more.
  std::unique_ptr<Staging> TakeStaging() {
    std::unique_ptr<Staging> staging;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        staging = std::move(idle.front());  // the one that was used longest ago
        idle.erase(idle.begin());
      }
    }
    if (!staging) return std::make_unique<Staging>(device_id);
    staging->used.Wait();
    return staging;
  }

  void GiveBack(std::unique_ptr<Staging> staging) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(staging));
  }

  void Check(std::span<const PostprocessInput> in, std::span<const PostprocessOutput> out) const {
    if (in.size() != out.size()) {
      FailArgument(in.size(), " heads came with ", out.size(), " outputs");
    }
    for (size_t i = 0; i < out.size(); ++i) {
      CheckOutputs(outputs, out[i], i, Device::kCuda, device_id);
    }
    CheckDetectionInputs(params, in, device_id);
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
    GiveBack(std::move(staging));
    return heads;
  }

  // records: device memory for one of each image, or null. runs: null where nobody wants them.
  void Launch(std::span<const PostprocessInput> in, std::span<const PostprocessOutput> out,
              DetectionRecord* records, const CudaRunLengths* runs, const CudaTarget& target) {
    const std::shared_ptr<void> heads = UploadHeads(in, target);
    const DetectionGroups groups = PlanGroups(params, in);
    const std::shared_ptr<void> scratch = AllocateCuda(groups.bytes, target);
    DetectionMemory memory = {static_cast<uint8_t*>(scratch.get()),
                              static_cast<const uint8_t*>(heads.get()),
                              records,
                              {},
                              runs == nullptr ? nullptr : runs->texts()};
    for (size_t first = 0; first < in.size(); first += groups.images) {
      const size_t count = std::min(groups.images, in.size() - first);
      if (runs != nullptr) memory.runs = runs->OfLaunch(first / groups.images);
      const DetectionLaunch launch = MakeDetectionLaunch(params, groups, in.subspan(first, count),
                                                         out.subspan(first, count), memory);
      CheckCuda(Cuda().detect(device_id, &launch, target.stream));
    }
  }

  RunLengthRoom FirstRoom(size_t images, size_t images_of_launch) {
    const RunLengthRoom guess = RunLengthRoom::Guess(images, images_of_launch);
    const std::lock_guard lock(mutex);
    return {std::max(room.words, guess.words), std::max(room.bytes, guess.bytes)};
  }

  void KeepRoom(const RunLengthRoom& needed) {
    const std::lock_guard lock(mutex);
    room = {std::max(room.words, needed.words), std::max(room.bytes, needed.bytes)};
  }

  std::vector<PostprocessItem> ItemsOf(std::span<const DetectionRecord> records) const {
    std::vector<PostprocessItem> items;
    items.reserve(records.size());
    for (const DetectionRecord& record : records) items.push_back(ItemOf(params.head, record));
    return items;
  }

  // All is repeated where run lengths found too little room: once the engine has seen as many,
  // never.
  std::vector<PostprocessItem> Run(std::span<const PostprocessInput> in,
                                   std::span<const PostprocessOutput> out,
                                   const CudaTarget& target) {
    const size_t record_bytes = in.size() * sizeof(DetectionRecord);
    const std::shared_ptr<void> memory = AllocateCuda(record_bytes, target);
    auto* records = static_cast<DetectionRecord*>(memory.get());
    const size_t of_launch = PlanGroups(params, in).images;
    RunLengthRoom wanted = FirstRoom(in.size(), of_launch);
    for (;;) {
      std::optional<CudaRunLengths> runs;
      if (GivesRle(params) && WantsRunLengths(out)) {
        runs.emplace(in.size(), (in.size() + of_launch - 1) / of_launch,
                     static_cast<size_t>(params.max_detections), wanted, target);
      }
      Launch(in, out, records, runs ? &*runs : nullptr, target);
      std::vector<uint8_t> read(record_bytes + (runs ? runs->noted_bytes() : 0));
      std::unique_ptr<Staging> staging = TakeStaging();
      staging->memory.Reserve(read.size());
      CopyCuda(staging->memory.data(), records, record_bytes, target);
      if (runs) runs->CopyNoted(staging->memory.data() + record_bytes);
      staging->used.Record(target.stream);
      SynchronizeCuda(target);
      std::memcpy(read.data(), staging->memory.data(), read.size());
      GiveBack(std::move(staging));
      const uint8_t* noted = read.data() + record_bytes;
      const bool had_room = !runs || runs->HadRoom(noted, wanted);
      KeepRoom(wanted);
      if (!had_room) continue;
      const std::span told(reinterpret_cast<const DetectionRecord*>(read.data()), in.size());
      std::vector<PostprocessItem> items = ItemsOf(told);
      if (runs) {
        staging = TakeStaging();
        runs->Read(noted, told, outputs, out, staging->memory, items);
        GiveBack(std::move(staging));
      }
      return items;
    }
  }
};

CudaPostprocessor::CudaPostprocessor(const PostprocessParams& params, int device_id) {
  Validate(params);
  RefuseForCuda(params);
  RequireCuda(device_id);
  engine_.reset(new Engine{params, PostprocessOutputs(params), device_id, {}, {}, {}});
}

CudaPostprocessor::~CudaPostprocessor() = default;

const PostprocessParams& CudaPostprocessor::params() const noexcept { return engine_->params; }

std::span<const TensorSpec> CudaPostprocessor::outputs() const noexcept { return engine_->outputs; }

int CudaPostprocessor::device_id() const noexcept { return engine_->device_id; }

void CudaPostprocessor::Enqueue(std::span<const PostprocessInput> inputs,
                                std::span<const PostprocessOutput> outputs, void* stream) {
  engine_->Check(inputs, outputs);
  if (WantsRunLengths(outputs)) {
    Fail(ErrorCode::kUnsupported,
         "run lengths of masks (detection_rle) are strings, whose lengths are known when the work "
         "is done: wait for it with Run, or take detection_masks, a bit for each pixel");
  }
  if (inputs.empty()) return;
  engine_->Launch(inputs, outputs, nullptr, nullptr, {engine_->device_id, stream});
}

std::vector<PostprocessItem> CudaPostprocessor::Run(std::span<const PostprocessInput> inputs,
                                                    std::span<const PostprocessOutput> outputs,
                                                    void* stream) {
  engine_->Check(inputs, outputs);
  if (inputs.empty()) return {};
  return engine_->Run(inputs, outputs, {engine_->device_id, stream});
}

}  // namespace endcap
