#include "preprocess/cuda_batch.h"

#include <chrono>
#include <utility>

#include "common/select_implementation.h"
#include "preprocess/cuda_rows.h"
#include "preprocess/device_errors.h"
#include "preprocess/preprocess_output.h"

namespace endcap {

CudaBatch::CudaBatch(const PreprocessParams& params, const CudaImage::DecodeContext& decode_context,
                     ThreadPool& pool, std::span<const ImageView> views,
                     std::span<const PreprocessOutput> outputs)
    : params_(params),
      decode_context_(decode_context),
      pool_(pool),
      views_(views),
      outputs_(outputs),
      count_(static_cast<int>(views.size())),
      items_(views.size()),
      images_(views.size()),
      offsets_(views.size()) {}

// Does something with an image; what goes wrong is its own status.
template <typename Call>
bool CudaBatch::Try(size_t image, Call call) noexcept {
  try {
    call();
    return true;
  } catch (...) {
    items_[image].status = MakeStatusFromCurrentException();
    return false;
  }
}

void CudaBatch::Open() {
  pool_.ParallelFor(count_, [this](int i) {
    const auto at = static_cast<size_t>(i);
    Try(at, [&] { images_[at].emplace(params_, views_[at], decode_context_); });
  });
}

// Before memory is reserved, which depends on who decodes.
void CudaBatch::StageForNvjpeg(CudaPreprocessContext& context) {
  for (size_t i = 0; i < images_.size(); ++i) {
    const std::optional<CudaImage>& image = images_[i];
    if (!image || image->nvjpeg_bytes() == 0) continue;
    if (nvjpeg_files_.empty()) context.nvjpeg().Clear();
    context.nvjpeg().Add(views_[i], image->layout());
    nvjpeg_files_.push_back(i);
  }
  if (nvjpeg_files_.empty()) return;
  CudaNvjpegSource& nvjpeg = context.nvjpeg();
  nvjpeg.Reserve();
  DeviceErrors errors;
  pool_.ParallelFor(static_cast<int>(nvjpeg_files_.size()), [&](int k) {
    errors.Guard([&] {
      ItemStatus status = nvjpeg.Stage(static_cast<size_t>(k));
      if (!status.ok()) LeaveNvjpeg(nvjpeg_files_[static_cast<size_t>(k)], std::move(status));
    });
  });
  errors.Rethrow();
}

// For a file that the JPEG engine does not take.
void CudaBatch::LeaveNvjpeg(size_t index, ItemStatus why) noexcept {
  std::optional<CudaImage>& opened = images_[index];
  if (!opened) return;
  CudaImage& image = *opened;
  if (params_.jpeg_decoder != JpegDecoder::kAuto) {
    items_[index].status = std::move(why);
  } else if (Try(index, [&] { image.DecodeWithoutNvjpeg(params_); })) {
    return;
  }
  opened.reset();
}

// What is uploaded comes first; what nvJPEG writes follows.
void CudaBatch::Reserve(CudaPreprocessContext& context) {
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

void CudaBatch::Upload(CudaPreprocessContext& context) {
  StageForNvjpeg(context);
  Reserve(context);
  DeviceErrors errors;
  pool_.ParallelFor(count_ + 2, [&](int i) {
    if (i == 0) {
      errors.Guard([&] { DecodeByNvjpeg(context); });
    } else if (i == 1) {
      errors.Guard([&] { Plan(context); });
    } else {
      UploadOne(static_cast<size_t>(i - 2), context, errors);
    }
  });
  errors.Rethrow();
}

void CudaBatch::DecodeByNvjpeg(CudaPreprocessContext& context) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::pair<size_t, size_t>> files;  // number in nvjpeg(), number in the batch
  for (size_t k = 0; k < nvjpeg_files_.size(); ++k) {
    const size_t i = nvjpeg_files_[k];
    const std::optional<CudaImage>& image = images_[i];
    if (!image || image->nvjpeg_bytes() == 0) continue;
    context.nvjpeg().SetPlanes(k, image->layout(), context.device_images() + offsets_[i]);
    files.emplace_back(k, i);
  }
  if (files.empty()) return;
  context.DecodeNvjpeg();
  const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
  for (const auto& [k, i] : files) {
    PreprocessItem& item = items_[i];
    item.status = context.nvjpeg().GetStatus(k);
    if (!item.status.ok()) {
      refused_.push_back(i);
      continue;
    }
    item.decoder = JpegDecoder::kNvjpeg;
    item.decode_ns = spent.count() / static_cast<int64_t>(files.size());
  }
}

void CudaBatch::Plan(CudaPreprocessContext& context) {
  for (size_t i = 0; i < images_.size(); ++i) {
    void* output = outputs_[i].image.data;
    const std::optional<CudaImage>& image = images_[i];
    if (!image) {
      context.plan().AddBlank(output);
      continue;
    }
    context.plan().Add(image->Describe(context.device_images() + offsets_[i]), image->placement(),
                       image->orientation(), output);
  }
}

void CudaBatch::UploadOne(size_t index, CudaPreprocessContext& context,
                          DeviceErrors& errors) noexcept {
  std::optional<CudaImage>& opened = images_[index];
  if (!opened || opened->nvjpeg_bytes() != 0) return;
  CudaImage& image = *opened;
  const bool filled = Try(index, [&] {
    items_[index].decode_ns = image.Fill(context.host_images() + offsets_[index]);
    items_[index].decoder = image.decoder();
  });
  const size_t bytes = image.staged_bytes();
  if (filled && bytes != 0) errors.Guard([&] { context.Upload(offsets_[index], bytes); });
}

std::vector<PreprocessItem> CudaBatch::Finish(FusedPlan& plan) {
  bool planes = false;
  for (size_t i = 0; i < items_.size(); ++i) {
    const PreprocessOutput& output = outputs_[i];
    const std::optional<CudaImage>& image = images_[i];
    const bool ok = image && items_[i].status.ok();
    if (!ok) plan.MakeBlank(i);
    WriteGeometry(output, ok ? image->MakeGeometry(output.source_index) : BlankGeometry(output));
    if (output.status != nullptr) *output.status = static_cast<int32_t>(items_[i].status.code);
    planes = planes || items_[i].decoder == JpegDecoder::kHybrid ||
             items_[i].decoder == JpegDecoder::kNvjpeg;
  }
  NoteRun(Stage::kPreprocess, Implementation::kCuda);
  if (planes) NoteRun(Stage::kDecode, Implementation::kCuda);
  return std::move(items_);
}

}  // namespace endcap
