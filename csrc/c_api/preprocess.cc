#include "endcap/preprocess.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "c_api/arguments.h"
#include "common/fail.h"

namespace endcap::c_api {

struct TensorSize {
  int height = 0;  // pixels
  int width = 0;
  bool operator==(const TensorSize&) const = default;
};

// The preprocessors of one handle: that of its parameters, and those of the other sizes that were
// asked for last. Thread-safe.
class SizedEngines {
 public:
  // Most other sizes that are kept: each holds, on a GPU, memory for two batches.
  static constexpr size_t kKept = 8;

  SizedEngines(const PreprocessParams& params, int32_t device, int threads)
      : params_(params),
        device_(ReadDevice(device)),
        threads_(threads),
        own_(std::make_shared<Preprocessor>(params, device_, threads)) {}

  const PreprocessParams& params() const noexcept { return params_; }
  DeviceId device() const noexcept { return device_; }

  // The parameters with another size. Throws as Validate.
  PreprocessParams MakeParams(TensorSize size) const {
    PreprocessParams params = params_;
    params.height = size.height;
    params.width = size.width;
    Validate(params);
    return params;
  }

  std::shared_ptr<Preprocessor> Get(TensorSize size) {
    const auto size_of = [](const std::shared_ptr<Preprocessor>& preprocessor) {
      return TensorSize{preprocessor->params().height, preprocessor->params().width};
    };
    if (size == size_of(own_)) return own_;
    // What is dropped waits for its work on a GPU, which others need not do.
    std::shared_ptr<Preprocessor> dropped;
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find(recent_, size, size_of);
    if (known != recent_.end()) {
      std::rotate(known, known + 1, recent_.end());
      return recent_.back();
    }
    recent_.push_back(std::make_shared<Preprocessor>(MakeParams(size), device_, threads_));
    if (recent_.size() > kKept) {
      dropped = std::move(recent_.front());
      recent_.erase(recent_.begin());
    }
    return recent_.back();
  }

 private:
  PreprocessParams params_;
  DeviceId device_;
  int threads_;
  std::shared_ptr<Preprocessor> own_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Preprocessor>> recent_;  // the last is the one used last
};

namespace {

static_assert(static_cast<int32_t>(PixelFormat::kEncoded) == ENDCAP_ENCODED);
static_assert(static_cast<int32_t>(PixelFormat::kRgb) == ENDCAP_RGB);
static_assert(static_cast<int32_t>(PixelFormat::kBgr) == ENDCAP_BGR);
static_assert(static_cast<int32_t>(PixelFormat::kGray) == ENDCAP_GRAY);

// The images of one size, which an engine takes together.
struct SizeGroup {
  TensorSize size;
  std::vector<size_t> positions;  // in the caller's arrays
  std::vector<ImageView> images;
  std::vector<PreprocessOutput> outputs;
};

SizeGroup& FindOrAddGroup(std::vector<SizeGroup>& groups, TensorSize size) {
  const auto known = std::ranges::find(groups, size, &SizeGroup::size);
  return known != groups.end() ? *known : groups.emplace_back(SizeGroup{size, {}, {}, {}});
}

// Throws kInvalidArgument for a size that the parameters cannot have; 0, 0 is theirs.
TensorSize ReadSize(const PreprocessParams& params, int32_t height, int32_t width) {
  if (height == 0 && width == 0) return {params.height, params.width};
  return {height, width};
}

// Where one image's results go. Throws kInvalidArgument for what does not fit.
PreprocessOutput ReadOutput(const SizedEngines& engines, const endcap_preprocess_output& output,
                            size_t i) {
  const TensorSize size = ReadSize(engines.params(), output.height, output.width);
  PreprocessParams params;
  try {
    params = engines.MakeParams(size);
  } catch (const Error& error) {
    Fail(error.code(), "output ", i, ": ", error.what());
  }
  const TensorSpec spec = PreprocessOutputs(params)[0];
  const DeviceId device = engines.device();
  const TensorView view{output.tensor, spec.dtype, spec.shape, spec.rank, device.type, device.id};
  if (output.tensor == nullptr) FailArgument("the tensor of output ", i, " is NULL");
  if (output.tensor_bytes != view.size_bytes()) {
    FailArgument("the tensor of output ", i, " has ", output.tensor_bytes,
                 " bytes: ", DTypeName(spec.dtype), " [", spec.shape[0], ", ", spec.shape[1], ", ",
                 spec.shape[2], "] takes ", view.size_bytes());
  }
  return {view, output.geometry, output.status, output.source_index};
}

// Throws kInvalidArgument for a view that cannot be read at all; the core checks pixels and bytes.
ImageView ReadImage(const SizedEngines& engines, const endcap_image& image, size_t i) {
  if (image.format < ENDCAP_ENCODED || image.format > ENDCAP_GRAY) {
    FailArgument("image ", i, " has format ", image.format, ": give ", int{ENDCAP_ENCODED}, " to ",
                 int{ENDCAP_GRAY}, ", an endcap_pixel_format");
  }
  const bool encoded = image.format == ENDCAP_ENCODED;
  if (image.on_gpu != 0 && (encoded || engines.device().type == Device::kCpu)) {
    FailArgument("image ", i, " is in GPU memory: give ",
                 encoded ? "encoded bytes" : "what a handle for the CPU works on",
                 " in CPU memory");
  }
  if (encoded) {
    if (image.size_bytes > 0 && image.data == nullptr) FailArgument("image ", i, " has no data");
    return ImageView::Encoded(image.data, image.size_bytes);
  }
  if (image.data == nullptr && image.width > 0 && image.height > 0) {
    FailArgument("the data of image ", i, " is NULL: give the pixels of its ", image.width, " x ",
                 image.height);
  }
  ImageView view =
      ImageView::Interleaved(static_cast<PixelFormat>(image.format), image.data, image.width,
                             image.height, static_cast<ptrdiff_t>(image.row_stride_bytes));
  if (image.on_gpu != 0) {
    view.device = Device::kCuda;
    view.device_id = engines.device().id;
  }
  return view;
}

// Runs images[i] into outputs[i], size by size; returns the items' messages. All arguments are
// checked before any work.
std::vector<std::string> RunBatch(SizedEngines& engines, std::span<const endcap_image> images,
                                  std::span<const endcap_preprocess_output> outputs, void* stream) {
  std::vector<SizeGroup> groups;
  for (size_t i = 0; i < images.size(); ++i) {
    const endcap_preprocess_output& output = outputs[i];
    SizeGroup& group =
        FindOrAddGroup(groups, ReadSize(engines.params(), output.height, output.width));
    group.positions.push_back(i);
    group.images.push_back(ReadImage(engines, images[i], i));
    group.outputs.push_back(ReadOutput(engines, output, i));
  }
  std::vector<std::string> messages(images.size());
  for (const SizeGroup& group : groups) {
    std::vector<PreprocessItem> items =
        engines.Get(group.size)->Run(group.images, group.outputs, stream);
    std::vector<std::string> said = TakeMessages(items);
    for (size_t k = 0; k < said.size(); ++k) messages[group.positions[k]] = std::move(said[k]);
  }
  return messages;
}

int64_t ToCount(size_t rois) {
  constexpr size_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(rois, kMost));
}

// Returns the messages of the regions, and the image's after them.
std::vector<std::string> RunRois(SizedEngines& engines, const endcap_image& image,
                                 const float* rois,
                                 std::span<const endcap_preprocess_output> outputs, void* stream,
                                 int32_t& image_status) {
  CheckRoiCount(engines.params(), ToCount(outputs.size()));
  TensorSize size = ReadSize(engines.params(), 0, 0);
  std::vector<PreprocessOutput> places;
  std::vector<Roi> regions;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorSize wanted = ReadSize(engines.params(), outputs[i].height, outputs[i].width);
    if (i == 0) size = wanted;
    if (wanted != size) {
      FailArgument("output ", i, " is of size ", wanted.height, ",", wanted.width,
                   ", and output 0 ", "of ", size.height, ",", size.width,
                   ": give the regions of one image one size");
    }
    places.push_back(ReadOutput(engines, outputs[i], i));
    const float* roi = rois + 4 * i;
    regions.push_back({roi[0], roi[1], roi[2], roi[3]});
  }
  const PreprocessInput input{ReadImage(engines, image, 0), regions, places};
  PreprocessItem item = std::move(engines.Get(size)->Run({&input, 1}, stream).front());
  std::vector<std::string> messages;
  messages.reserve(item.rois.size() + 1);
  for (ItemStatus& status : item.rois) messages.push_back(std::move(status.message));
  messages.push_back(std::move(item.status.message));
  image_status = static_cast<int32_t>(item.status.code);
  return messages;
}

}  // namespace
}  // namespace endcap::c_api

struct endcap_preprocessor {
  endcap::c_api::SizedEngines engines;
  int32_t device;  // ENDCAP_CPU, or the number of a GPU
  std::string tensor_name;
};

namespace c_api = endcap::c_api;

endcap_status endcap_preprocessor_new(const endcap_parameter* parameters, size_t count,
                                      int32_t device, int32_t threads, endcap_preprocessor** made) {
  return c_api::Guarded([&] {
    c_api::Require(static_cast<const void*>(made), "made");
    *made = nullptr;
    const auto params = endcap::ParsePreprocessParams(c_api::ReadParameters(parameters, count));
    *made = new endcap_preprocessor{c_api::SizedEngines(params, device, threads), device,
                                    std::string(PreprocessOutputs(params)[0].name)};
  });
}

void endcap_preprocessor_free(endcap_preprocessor* preprocessor) { delete preprocessor; }

endcap_status endcap_preprocessor_tensor(const endcap_preprocessor* preprocessor, int32_t height,
                                         int32_t width, endcap_tensor_spec* spec) {
  return c_api::Guarded([&] {
    c_api::Require(preprocessor, "preprocessor");
    c_api::Require(spec, "spec");
    const c_api::SizedEngines& engines = preprocessor->engines;
    const auto params = engines.MakeParams(c_api::ReadSize(engines.params(), height, width));
    *spec = c_api::WriteSpec(PreprocessOutputs(params)[0], preprocessor->tensor_name.c_str());
  });
}

int32_t endcap_preprocessor_blanks(const endcap_preprocessor* preprocessor) {
  if (preprocessor == nullptr) return 0;
  return preprocessor->engines.params().on_error == endcap::OnError::kBlank ? 1 : 0;
}

int32_t endcap_preprocessor_channels_last(const endcap_preprocessor* preprocessor) {
  if (preprocessor == nullptr) return 0;
  return preprocessor->engines.params().layout == endcap::Layout::kNhwc ? 1 : 0;
}

endcap_status endcap_preprocessor_check_rois(const endcap_preprocessor* preprocessor,
                                             size_t roi_count) {
  return c_api::Guarded([&] {
    c_api::Require(preprocessor, "preprocessor");
    CheckRoiCount(preprocessor->engines.params(), c_api::ToCount(roi_count));
  });
}

endcap_status endcap_preprocessor_check_roi_tensors(const endcap_preprocessor* preprocessor,
                                                    size_t roi_count, int32_t height,
                                                    int32_t width) {
  return c_api::Guarded([&] {
    c_api::Require(preprocessor, "preprocessor");
    const c_api::SizedEngines& engines = preprocessor->engines;
    const auto params = engines.MakeParams(c_api::ReadSize(engines.params(), height, width));
    CheckRoiTensors(params, c_api::ToCount(roi_count));
  });
}

endcap_status endcap_preprocessor_run(endcap_preprocessor* preprocessor, const endcap_image* images,
                                      const endcap_preprocess_output* outputs, size_t count,
                                      void* stream) {
  return c_api::GuardedRun([&] {
    c_api::Require(preprocessor, "preprocessor");
    c_api::RequireArray(images, "images", count);
    c_api::RequireArray(outputs, "outputs", count);
    c_api::CheckStream(preprocessor->device, stream);
    c_api::KeepItemErrors(
        c_api::RunBatch(preprocessor->engines, {images, count}, {outputs, count}, stream));
  });
}

endcap_status endcap_preprocessor_run_rois(endcap_preprocessor* preprocessor,
                                           const endcap_image* image, const float* rois,
                                           const endcap_preprocess_output* outputs,
                                           size_t roi_count, int32_t* image_status) {
  return endcap_preprocessor_run_rois_on_stream(preprocessor, image, rois, outputs, roi_count,
                                                image_status, nullptr);
}

endcap_status endcap_preprocessor_run_rois_on_stream(endcap_preprocessor* preprocessor,
                                                     const endcap_image* image, const float* rois,
                                                     const endcap_preprocess_output* outputs,
                                                     size_t roi_count, int32_t* image_status,
                                                     void* stream) {
  return c_api::GuardedRun([&] {
    c_api::Require(preprocessor, "preprocessor");
    c_api::Require(image, "image");
    c_api::Require(image_status, "image_status");
    c_api::RequireArray(rois, "rois", roi_count);
    c_api::RequireArray(outputs, "outputs", roi_count);
    c_api::CheckStream(preprocessor->device, stream);
    c_api::KeepItemErrors(c_api::RunRois(preprocessor->engines, *image, rois, {outputs, roi_count},
                                         stream, *image_status));
  });
}
