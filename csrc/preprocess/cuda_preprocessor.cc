#include <exception>
#include <mutex>
#include <optional>

#include "common/fail.h"
#include "common/path_select.h"
#include "cuda/runtime.h"
#include "endcap/cuda.h"
#include "endcap/preprocess.h"
#include "preprocess/cuda_context.h"
#include "preprocess/cuda_image.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

void CheckDecoder(const PreprocessParams& params) {
  if (params.jpeg_decoder == JpegDecoder::kNvjpeg) {
    Fail(ErrorCode::kUnsupported,
         "jpeg_decoder nvjpeg is not in this build: give auto, hybrid or cpu");
  }
}

// What goes wrong with the device on any of a batch's threads: the first is thrown at the end.
class DeviceErrors {
 public:
  template <typename Call>
  void Guard(Call call) noexcept {
    try {
      call();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
    }
  }
  void Rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

size_t AlignPlane(size_t bytes) {
  return (bytes + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
}

// One call of Run.
class Batch {
 public:
  Batch(const PreprocessParams& params, int device_id, ThreadPool& pool,
        std::span<const ImageView> views, std::span<const PreprocessOutput> outputs)
      : params_(params),
        device_id_(device_id),
        pool_(pool),
        views_(views),
        outputs_(outputs),
        count_(static_cast<int>(views.size())),
        items_(views.size()),
        images_(views.size()),
        offsets_(views.size()) {}

  // Headers are read and images placed.
  void Open() {
    pool_.ParallelFor(count_, [this](int i) {
      Try(i, [&](size_t at) { images_[at].emplace(params_, views_[at], device_id_); });
    });
  }

  // Each image goes up as soon as it is decoded. The plan is worked out meanwhile.
  void Upload(CudaPreprocessContext& context) {
    size_t bytes = 0;
    for (size_t i = 0; i < images_.size(); ++i) {
      offsets_[i] = bytes;
      if (images_[i]) bytes += AlignPlane(images_[i]->staged_bytes());
    }
    context.ReserveImages(bytes);
    DeviceErrors errors;
    pool_.ParallelFor(count_ + 1, [&](int i) {
      if (i == 0) {
        errors.Guard([&] { Plan(context); });
      } else {
        UploadOne(i - 1, context, errors);
      }
    });
    errors.Rethrow();
  }

  // Geometry and status; images that failed become blank.
  std::vector<PreprocessItem> Finish(FusedPlan& plan) {
    bool planes = false;
    for (size_t i = 0; i < items_.size(); ++i) {
      const PreprocessOutput& output = outputs_[i];
      const bool ok = items_[i].status.ok();
      if (!ok) plan.MakeBlank(i);
      WriteGeometry(output,
                    ok ? images_[i]->MakeGeometry(output.source_index) : BlankGeometry(output));
      if (output.status != nullptr) *output.status = static_cast<int32_t>(items_[i].status.code);
      planes = planes || items_[i].decoder == JpegDecoder::kHybrid;
    }
    NoteRun(Stage::kPreprocess, Path::kCuda);
    if (planes) NoteRun(Stage::kDecode, Path::kCuda);
    return std::move(items_);
  }

 private:
  // Does something with an image; what goes wrong is its own status.
  template <typename Call>
  bool Try(int i, Call call) noexcept {
    const auto at = static_cast<size_t>(i);
    try {
      call(at);
      return true;
    } catch (...) {
      items_[at].status = StatusOfCurrentException();
      return false;
    }
  }

  void Plan(CudaPreprocessContext& context) {
    for (size_t i = 0; i < images_.size(); ++i) {
      void* output = outputs_[i].image.data;
      if (!images_[i]) {
        context.plan().AddBlank(output);
        continue;
      }
      context.plan().Add(images_[i]->Describe(context.device_images() + offsets_[i]),
                         images_[i]->placement(), images_[i]->orientation(), output);
    }
  }

  void UploadOne(int i, CudaPreprocessContext& context, DeviceErrors& errors) noexcept {
    const auto at = static_cast<size_t>(i);
    if (!images_[at]) return;
    const bool filled = Try(i, [&](size_t) {
      items_[at].decode_ns = images_[at]->Fill(context.host_images() + offsets_[at]);
      items_[at].decoder = images_[at]->decoder();
    });
    const size_t bytes = images_[at]->staged_bytes();
    if (filled && bytes != 0) errors.Guard([&] { context.Upload(offsets_[at], bytes); });
  }

  const PreprocessParams& params_;
  int device_id_;
  ThreadPool& pool_;
  std::span<const ImageView> views_;
  std::span<const PreprocessOutput> outputs_;
  int count_;
  std::vector<PreprocessItem> items_;
  std::vector<std::optional<CudaImage>> images_;
  std::vector<size_t> offsets_;  // into the memory of the images that go up
};

}  // namespace

struct CudaPreprocessor::Engine {
  Engine(const PreprocessParams& checked_params, int id, int threads)
      : params(checked_params), device_id(id), pool(threads), contexts(checked_params, id) {}

  void CheckOutput(const TensorView& view, size_t item) const {
    CheckOutputShape(params, view, item);
    if (view.device != Device::kCuda || view.device_id != device_id) {
      FailArgument("output ", item, " is not memory of device cuda:", device_id);
    }
  }

  PreprocessParams params;
  int device_id;
  ThreadPool pool;
  CudaContextPool contexts;
};

CudaPreprocessor::CudaPreprocessor(const PreprocessParams& params, int device_id, int threads) {
  Validate(params);
  CheckDecoder(params);
  RequireCuda(device_id);
  engine_ = std::make_unique<Engine>(params, device_id, threads);
}

CudaPreprocessor::~CudaPreprocessor() = default;

const PreprocessParams& CudaPreprocessor::params() const noexcept { return engine_->params; }
int CudaPreprocessor::threads() const noexcept { return engine_->pool.thread_count(); }
int CudaPreprocessor::device_id() const noexcept { return engine_->device_id; }

std::vector<PreprocessItem> CudaPreprocessor::Run(std::span<const ImageView> images,
                                                  std::span<const PreprocessOutput> outputs,
                                                  void* stream) {
  if (images.size() != outputs.size()) {
    FailArgument(images.size(), " images came with ", outputs.size(), " outputs");
  }
  for (size_t i = 0; i < outputs.size(); ++i) engine_->CheckOutput(outputs[i].image, i);
  if (images.empty()) return {};

  Batch batch(engine_->params, engine_->device_id, engine_->pool, images, outputs);
  batch.Open();
  std::unique_ptr<CudaPreprocessContext> context = engine_->contexts.Take();
  context->Begin();
  batch.Upload(*context);
  std::vector<PreprocessItem> items = batch.Finish(context->plan());
  context->Launch(stream);
  engine_->contexts.Return(std::move(context));
  return items;
}

}  // namespace endcap
