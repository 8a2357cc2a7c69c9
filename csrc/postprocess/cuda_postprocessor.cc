#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "cuda/runtime.h"
#include "endcap/postprocess.h"
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
  const std::string_view name = HeadFamilyName(head.family);
  if (!RunsOnCuda(head.family)) Fail(ErrorCode::kUnsupported, "head ", name, " is read", kUseCpu);
  if (head.family == HeadFamily::kSsd && !GridFits(head)) {
    Fail(ErrorCode::kUnsupported, "head ssd with an anchor_grid of more than ", kMaxGridLevels,
         " levels or ", kMaxGridSizes, " sizes is read", kUseCpu);
  }
  if (head.family != HeadFamily::kYolov8Seg) return;
  if (params.mask_resolution == MaskResolution::kSource) {
    Fail(ErrorCode::kUnsupported, "masks with mask_resolution=source are made", kUseCpu,
         "; a GPU makes those of prototype and of input");
  }
  if (params.mask_resolution == MaskResolution::kInput &&
      (head.prototype_height > head.input_height || head.prototype_width > head.input_width)) {
    Fail(ErrorCode::kUnsupported, "masks of prototypes that are larger than input_size are made",
         kUseCpu);
  }
}

void RefuseRunLengths(std::span<const PostprocessOutput> outputs) {
  for (const PostprocessOutput& output : outputs) {
    if (output.rle == nullptr) continue;
    Fail(ErrorCode::kUnsupported, "run lengths of masks (detection_rle) are made", kUseCpu,
         "; a GPU makes detection_masks, a bit for each pixel");
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
    RefuseRunLengths(out);
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

  // records: device memory for one of each image, or null.
  void Launch(std::span<const PostprocessInput> in, std::span<const PostprocessOutput> out,
              DetectionRecord* records, const CudaTarget& target) {
    const std::shared_ptr<void> heads = UploadHeads(in, target);
    const DetectionGroups groups = PlanGroups(params, in);
    const std::shared_ptr<void> scratch = AllocateCuda(groups.bytes, target);
    DetectionMemory memory = {static_cast<uint8_t*>(scratch.get()),
                              static_cast<const uint8_t*>(heads.get()), records};
    for (size_t first = 0; first < in.size(); first += groups.images) {
      const size_t count = std::min(groups.images, in.size() - first);
      const DetectionLaunch launch = MakeDetectionLaunch(params, groups, in.subspan(first, count),
                                                         out.subspan(first, count), memory);
      CheckCuda(Cuda().detect(device_id, &launch, target.stream));
    }
  }
};

CudaPostprocessor::CudaPostprocessor(const PostprocessParams& params, int device_id) {
  Validate(params);
  RefuseForCuda(params);
  RequireCuda(device_id);
  engine_.reset(new Engine{params, PostprocessOutputs(params), device_id, {}, {}});
}

CudaPostprocessor::~CudaPostprocessor() = default;

const PostprocessParams& CudaPostprocessor::params() const noexcept { return engine_->params; }

std::span<const TensorSpec> CudaPostprocessor::outputs() const noexcept { return engine_->outputs; }

int CudaPostprocessor::device_id() const noexcept { return engine_->device_id; }

void CudaPostprocessor::Enqueue(std::span<const PostprocessInput> inputs,
                                std::span<const PostprocessOutput> outputs, void* stream) {
  engine_->Check(inputs, outputs);
  if (inputs.empty()) return;
  engine_->Launch(inputs, outputs, nullptr, {engine_->device_id, stream});
}

std::vector<PostprocessItem> CudaPostprocessor::Run(std::span<const PostprocessInput> inputs,
                                                    std::span<const PostprocessOutput> outputs,
                                                    void* stream) {
  engine_->Check(inputs, outputs);
  if (inputs.empty()) return {};
  const CudaTarget target = {engine_->device_id, stream};
  const size_t bytes = inputs.size() * sizeof(DetectionRecord);
  const std::shared_ptr<void> records = AllocateCuda(bytes, target);
  engine_->Launch(inputs, outputs, static_cast<DetectionRecord*>(records.get()), target);
  std::unique_ptr<Staging> staging = engine_->TakeStaging();
  staging->memory.Reserve(bytes);
  CopyCuda(staging->memory.data(), records.get(), bytes, target);
  staging->used.Record(target.stream);
  SynchronizeCuda(target);
  std::vector<DetectionRecord> read(inputs.size());
  std::memcpy(read.data(), staging->memory.data(), bytes);
  engine_->GiveBack(std::move(staging));
  std::vector<PostprocessItem> items;
  items.reserve(inputs.size());
  for (const DetectionRecord& record : read) items.push_back(ItemOf(engine_->params.head, record));
  return items;
}

}  // namespace endcap
