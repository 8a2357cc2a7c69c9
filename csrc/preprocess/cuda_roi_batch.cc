#include "preprocess/cuda_roi_batch.h"

#include <algorithm>

#include "common/select_implementation.h"
#include "preprocess/cuda_rows.h"
#include "preprocess/device_errors.h"
#include "preprocess/preprocess_output.h"

namespace endcap {

CudaRoiBatch::CudaRoiBatch(const PreprocessParams& params, int device_id, ThreadPool& pool,
                           std::span<const RoiImage> images)
    : params_(params),
      device_id_(device_id),
      pool_(pool),
      views_(images),
      count_(static_cast<int>(images.size())),
      items_(images.size()),
      images_(images.size()),
      offsets_(images.size()) {
  for (size_t i = 0; i < images.size(); ++i) items_[i].rois.resize(images[i].rois.size());
}

// Does something with an image; what goes wrong is its status, and that of all of its regions.
template <typename Call>
void CudaRoiBatch::Try(size_t image, Call call) noexcept {
  try {
    call();
  } catch (...) {
    items_[image].status = MakeStatusFromCurrentException();
    std::ranges::fill(items_[image].rois, items_[image].status);
    images_[image].reset();
  }
}

void CudaRoiBatch::Open() {
  pool_.ParallelFor(count_, [this](int i) {
    const auto at = static_cast<size_t>(i);
    Try(at, [&] { images_[at].emplace(params_, views_[at], device_id_, items_[at]); });
  });
}

void CudaRoiBatch::Upload(CudaPreprocessContext& context) {
  size_t end = 0;
  for (size_t i = 0; i < images_.size(); ++i) {
    const std::optional<CudaRoiImage>& image = images_[i];
    offsets_[i] = end;
    end += AlignPlane(image ? image->staged_bytes() : 0);
  }
  context.ReserveImages(end, end);
  DeviceErrors errors;
  pool_.ParallelFor(count_, [&](int i) {
    const auto at = static_cast<size_t>(i);
    const std::optional<CudaRoiImage>& opened = images_[at];
    if (!opened || opened->staged_bytes() == 0) return;
    const CudaRoiImage& image = *opened;
    const size_t bytes = image.staged_bytes();
    Try(at, [&] { image.Fill(context.host_images() + offsets_[at], items_[at]); });
    if (opened) errors.Guard([&] { context.Upload(offsets_[at], bytes); });
  });
  errors.Rethrow();
}

std::vector<RoiItem> CudaRoiBatch::Finish(CudaPreprocessContext& context) {
  for (size_t i = 0; i < images_.size(); ++i) {
    const std::span<const PreprocessOutput> outputs = views_[i].outputs;
    const std::optional<CudaRoiImage>& image = images_[i];
    if (image) {
      image->AddTo(context.plan(), context.device_images() + offsets_[i]);
    } else {
      for (const PreprocessOutput& output : outputs) {
        if (output.image.data != nullptr) context.plan().AddBlank(output.image.data);
        WriteGeometry(output, BlankGeometry(output));
      }
    }
    for (size_t k = 0; k < outputs.size(); ++k) WriteStatus(outputs[k], items_[i].rois[k]);
    SettleRoiItem(items_[i]);
  }
  NoteRun(Stage::kPreprocess, Implementation::kCuda);
  return std::move(items_);
}

}  // namespace endcap
