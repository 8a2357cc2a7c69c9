#include "endcap/preprocess.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "c_api/arguments.h"
#include "c_api/last_call.h"
#include "c_api/preprocess_batch.h"
#include "c_api/sized_engines.h"
#include "common/fail.h"

struct endcap_preprocessor {
  endcap::c_api::SizedEngines engines;
  int32_t device;  // ENDCAP_CPU, or the number of a GPU
  std::string tensor_name;
};

namespace endcap::c_api {
namespace {

int64_t ToCount(size_t rois) {
  constexpr size_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(rois, kMost));
}

std::vector<Roi> ReadRois(const float* rois, size_t count) {
  std::vector<Roi> regions;
  regions.reserve(count);
  for (size_t i = 0; i < count; ++i, rois += 4) {
    regions.push_back({rois[0], rois[1], rois[2], rois[3]});
  }
  return regions;
}

// Returns the messages of the regions, and the image's after them.
std::vector<std::string> RunRois(SizedEngines& engines, const endcap_image& image,
                                 const float* rois,
                                 std::span<const endcap_preprocess_output> outputs, void* stream,
                                 int32_t& image_status) {
  CheckRoiCount(engines.params(), ToCount(outputs.size()));
  TensorSize size = ReadSize(engines.params(), 0, 0);
  std::vector<PreprocessOutput> places;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorSize wanted = ReadSize(engines.params(), outputs[i].height, outputs[i].width);
    if (i == 0) size = wanted;
    if (wanted != size) {
      FailArgument("output ", i, " is of size ", wanted.height, ",", wanted.width,
                   ", and output 0 ", "of ", size.height, ",", size.width,
                   ": give the regions of one image one size");
    }
    places.push_back(ReadOutput(engines, outputs[i], i));
  }
  const std::vector<Roi> regions = ReadRois(rois, outputs.size());
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

namespace c_api = endcap::c_api;

endcap_status endcap_preprocessor_new(const endcap_parameter* parameters, size_t count,
                                      int32_t device, int32_t threads, endcap_preprocessor** made) {
  return c_api::Guarded([&] {
    c_api::Require(made, "made");
    *made = nullptr;
    c_api::CheckDevice(device);
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
