#include <chrono>
#include <exception>
#include <mutex>
#include <optional>

#include "common/fail.h"
#include "common/path_select.h"
#include "cuda/runtime.h"
#include "decode/jpeg_decoder_choice.h"
#include "endcap/cuda.h"
#include "endcap/preprocess.h"
#include "preprocess/cuda_context.h"
#include "preprocess/cuda_image.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

bool AllowsNvjpeg(const PreprocessParams& params) {
  return params.decode == DecodeMode::kFast &&
         (params.jpeg_decoder == JpegDecoder::kAuto || params.jpeg_decoder == JpegDecoder::kNvjpeg);
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
  Batch(const PreprocessParams& params, const CudaImage::Surroundings& surroundings,
        ThreadPool& pool, std::span<const ImageView> views,
        std::span<const PreprocessOutput> outputs)
      : params_(params),
        surroundings_(surroundings),
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
      Try(i, [&](size_t at) { images_[at].emplace(params_, views_[at], surroundings_); });
    });
  }

  // Each image goes up as soon as it is decoded. The plan is worked out meanwhile, and nvJPEG
  // decodes its files.
  void Upload(CudaPreprocessContext& context) {
    Reserve(context);
    DeviceErrors errors;
    pool_.ParallelFor(count_ + 2, [&](int i) {
      if (i == 0) {
        errors.Guard([&] { DecodeByNvjpeg(context); });
      } else if (i == 1) {
        errors.Guard([&] { Plan(context); });
      } else {
        UploadOne(i - 2, context, errors);
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
      planes = planes || items_[i].decoder == JpegDecoder::kHybrid ||
               items_[i].decoder == JpegDecoder::kNvjpeg;
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

  // What goes up comes first; what nvJPEG writes follows.
  void Reserve(CudaPreprocessContext& context) {
    size_t end = 0;
    const auto lay_out = [&](size_t (CudaImage::*bytes)() const noexcept) {
      for (size_t i = 0; i < images_.size(); ++i) {
        const size_t size = images_[i] ? ((*images_[i]).*bytes)() : 0;
        if (size == 0) continue;
        offsets_[i] = end;
        end += AlignPlane(size);
      }
      return end;
    };
    const size_t staged = lay_out(&CudaImage::staged_bytes);
    const size_t all = lay_out(&CudaImage::nvjpeg_bytes);
    context.ReserveImages(staged, all);
    if (all != staged) context.WaitForImages();
  }

  void DecodeByNvjpeg(CudaPreprocessContext& context) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<size_t> files;
    for (size_t i = 0; i < images_.size(); ++i) {
      if (images_[i] && images_[i]->nvjpeg_bytes() != 0) files.push_back(i);
    }
    if (files.empty()) return;
    CudaNvjpegSource& nvjpeg = context.nvjpeg();
    nvjpeg.Clear();
    for (const size_t i : files) {
      nvjpeg.Add(views_[i], images_[i]->layout(), context.device_images() + offsets_[i]);
    }
    context.DecodeNvjpeg();
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
    for (size_t k = 0; k < files.size(); ++k) {
      PreprocessItem& item = items_[files[k]];
      item.status = nvjpeg.StatusOf(k);
      if (!item.status.ok()) continue;
      item.decoder = JpegDecoder::kNvjpeg;
      item.decode_ns = spent.count() / static_cast<int64_t>(files.size());
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
    if (!images_[at] || images_[at]->nvjpeg_bytes() != 0) return;
    const bool filled = Try(i, [&](size_t) {
      items_[at].decode_ns = images_[at]->Fill(context.host_images() + offsets_[at]);
      items_[at].decoder = images_[at]->decoder();
    });
    const size_t bytes = images_[at]->staged_bytes();
    if (filled && bytes != 0) errors.Guard([&] { context.Upload(offsets_[at], bytes); });
  }

  const PreprocessParams& params_;
  CudaImage::Surroundings surroundings_;
  ThreadPool& pool_;
  std::span<const ImageView> views_;
  std::span<const PreprocessOutput> outputs_;
  int count_;
  std::vector<PreprocessItem> items_;
  std::vector<std::optional<CudaImage>> images_;
  std::vector<size_t> offsets_;  // into the images' device memory
};

}  // namespace

struct CudaPreprocessor::Engine {
  Engine(const PreprocessParams& checked_params, int id, int threads)
      : params(checked_params), device_id(id), pool(threads), contexts(checked_params, id) {
    std::string why_not;
    if (AllowsNvjpeg(params)) nvjpeg = OpenNvjpeg(why_not);
    CheckJpegDecoder(params.decode, params.jpeg_decoder, nvjpeg, why_not);
  }

  // Whether nvJPEG can be used; the first context keeps what was opened.
  bool OpenNvjpeg(std::string& why_not) {
    std::unique_ptr<CudaPreprocessContext> context = contexts.Take();
    try {
      context->nvjpeg();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCuda) throw;
      why_not = error.what();
    }
    contexts.Return(std::move(context));
    return why_not.empty();
  }

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
  bool nvjpeg = false;
};

CudaPreprocessor::CudaPreprocessor(const PreprocessParams& params, int device_id, int threads) {
  Validate(params);
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

  const CudaImage::Surroundings surroundings{engine_->device_id, engine_->nvjpeg,
                                             static_cast<int>(images.size())};
  Batch batch(engine_->params, surroundings, engine_->pool, images, outputs);
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
