#include "preprocess/cuda/device_batch.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "common/select_implementation.h"
#include "common/steady_clock.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

// ParallelFor of what may throw: the first failure, on any of the threads, is thrown at the end.
void ForEach(ThreadPool& pool, int count, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  pool.ParallelFor(count, [&](int i) {
    try {
      body(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  });
  if (first) std::rethrow_exception(first);
}

}  // namespace

DeviceBatch::DeviceBatch(const PreprocessParams& params,
                         const DeviceImage::DecodeContext& decode_context, ThreadPool& pool,
                         std::span<const PreprocessInput> inputs)
    : params_(params),
      decode_context_(decode_context),
      pool_(pool),
      inputs_(inputs),
      count_(static_cast<int>(inputs.size())),
      items_(inputs.size()),
      images_(inputs.size()),
      offsets_(inputs.size()),
      plan_begins_(inputs.size()) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& rois = inputs[i].rois;
    if (rois) items_[i].rois.resize(rois->size());
  }
}

// Does something with an image; what goes wrong is its status, and that of all of its regions.
template <typename Call>
bool DeviceBatch::Try(size_t image, Call call) noexcept {
  try {
    call();
    return true;
  } catch (...) {
    items_[image].status = MakeStatusFromCurrentException();
    std::ranges::fill(items_[image].rois, items_[image].status);
    return false;
  }
}

void DeviceBatch::Open() {
  pool_.ParallelFor(count_, [this](int i) {
    const auto at = static_cast<size_t>(i);
    Try(at, [&] { images_[at].emplace(params_, inputs_[at], decode_context_, items_[at]); });
  });
}

// Before memory is reserved, which depends on who decodes.
void DeviceBatch::StageForNvjpeg(CudaPreprocessContext& context) {
  for (size_t i = 0; i < images_.size(); ++i) {
    const std::optional<DeviceImage>& image = images_[i];
    if (!image || image->nvjpeg_bytes() == 0) continue;
    if (nvjpeg_files_.empty()) context.nvjpeg().Clear();
    context.nvjpeg().Add(inputs_[i].image, image->layout());
    nvjpeg_files_.push_back(i);
  }
  if (nvjpeg_files_.empty()) return;
  NvjpegSource& nvjpeg = context.nvjpeg();
  nvjpeg.Reserve();
  ForEach(pool_, static_cast<int>(nvjpeg_files_.size()), [&](int k) {
    const auto file = static_cast<size_t>(k);
    ItemStatus status = nvjpeg.Stage(file);
    if (!status.ok()) FallBackFromNvjpeg(nvjpeg_files_[file], std::move(status));
  });
}

// For a file that the JPEG engine does not take.
void DeviceBatch::FallBackFromNvjpeg(size_t index, ItemStatus why) noexcept {
  std::optional<DeviceImage>& opened = images_[index];
  if (!opened) return;
  DeviceImage& image = *opened;
  if (params_.jpeg_decoder != JpegDecoder::kAuto) {
    items_[index].status = std::move(why);
  } else if (Try(index, [&] { image.DecodeWithoutNvjpeg(); })) {
    return;
  }
  opened.reset();
}

// What is uploaded comes first; what nvJPEG writes follows.
void DeviceBatch::Reserve(CudaPreprocessContext& context) {
  size_t end = 0;
  const auto lay_out = [&](size_t (DeviceImage::*bytes)() const noexcept) {
    for (size_t i = 0; i < images_.size(); ++i) {
      const size_t size = images_[i] ? ((*images_[i]).*bytes)() : 0;
      if (size == 0) continue;
      offsets_[i] = end;
      end += RoundUp(size, kPlaneAlignment);
    }
    return end;
  };
  const size_t staged = lay_out(&DeviceImage::staged_bytes);
  const size_t all = lay_out(&DeviceImage::nvjpeg_bytes);
  context.ReserveImages(staged, all);
  if (all != staged) context.WaitForImages();
}

void DeviceBatch::Upload(CudaPreprocessContext& context) {
  StageForNvjpeg(context);
  Reserve(context);
  ForEach(pool_, count_ + 2, [&](int i) {
    if (i == 0) {
      DecodeByNvjpeg(context);
    } else if (i == 1) {
      Plan(context);
    } else {
      UploadOne(static_cast<size_t>(i - 2), context);
    }
  });
}

void DeviceBatch::DecodeByNvjpeg(CudaPreprocessContext& context) {
  const int64_t start = SteadyNowNs();
  std::vector<std::pair<size_t, size_t>> files;  // number in nvjpeg(), number in the batch
  for (size_t k = 0; k < nvjpeg_files_.size(); ++k) {
    const size_t i = nvjpeg_files_[k];
    const std::optional<DeviceImage>& image = images_[i];
    if (!image || image->nvjpeg_bytes() == 0) continue;
    context.nvjpeg().SetPlanes(k, image->layout(), context.device_images() + offsets_[i]);
    files.emplace_back(k, i);
  }
  if (files.empty()) return;
  context.nvjpeg().Decode();
  const int64_t spent = SteadyNowNs() - start;
  for (const auto& [k, i] : files) {
    PreprocessItem& item = items_[i];
    item.status = context.nvjpeg().GetStatus(k);
    if (!item.status.ok()) {
      refused_.push_back(i);
      continue;
    }
    item.decoder = JpegDecoder::kNvjpeg;
    item.decode_ns = spent / static_cast<int64_t>(files.size());
  }
}

void DeviceBatch::Plan(CudaPreprocessContext& context) {
  FusedPlan& plan = context.plan();
  for (size_t i = 0; i < images_.size(); ++i) {
    plan_begins_[i] = plan.image_count();
    if (const std::optional<DeviceImage>& image = images_[i]) {
      image->AddTo(plan, context.device_images() + offsets_[i]);
      continue;
    }
    for (const PreprocessOutput& output : inputs_[i].outputs) {
      if (output.image.data != nullptr) plan.AddBlank(output.image.data);
    }
  }
}

void DeviceBatch::UploadOne(size_t index, CudaPreprocessContext& context) {
  std::optional<DeviceImage>& opened = images_[index];
  if (!opened || opened->nvjpeg_bytes() != 0) return;
  DeviceImage& image = *opened;
  const bool filled =
      Try(index, [&] { image.Fill(context.host_images() + offsets_[index], items_[index]); });
  const size_t bytes = image.staged_bytes();
  if (filled && bytes != 0) context.Upload(offsets_[index], bytes);
}

// For an image that failed: its tensors, whose number in the plan is known, and geometries.
void DeviceBatch::Blank(size_t index, FusedPlan& plan) {
  size_t number = plan_begins_[index];
  for (const PreprocessOutput& output : inputs_[index].outputs) {
    if (output.image.data != nullptr) plan.MakeBlank(number++);
    WriteBlankGeometry(output);
  }
}

std::vector<PreprocessItem> DeviceBatch::Finish(FusedPlan& plan) {
  bool planes = false;  // the GPU made the pixels of an image out of a JPEG's planes
  for (size_t i = 0; i < items_.size(); ++i) {
    PreprocessItem& item = items_[i];
    auto& image = images_[i];
    if (image && item.status.ok()) {
      image->WriteWholeGeometry();
    } else {
      Blank(i, plan);
    }
    WriteStatuses(inputs_[i], item);
    planes = planes || item.decoder == JpegDecoder::kHybrid || item.decoder == JpegDecoder::kNvjpeg;
  }
  NoteRun(Stage::kPreprocess, Implementation::kCuda);
  if (planes) NoteRun(Stage::kDecode, Implementation::kCuda);
  return std::move(items_);
}

}  // namespace endcap
