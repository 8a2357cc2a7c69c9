#include "endcap/postprocess.h"

#include <algorithm>

#include "c_api/arguments.h"
#include "common/fail.h"
#include "endcap/nms.h"

struct endcap_postprocessor {
  endcap_postprocessor(const endcap::PostprocessParams& params, int32_t of_device, int threads)
      : device(of_device),
        inputs(HeadInputs(params.head)),
        outputs(PostprocessOutputs(params)),
        engine(params, endcap::c_api::ReadDevice(of_device), threads) {}

  int32_t device;  // ENDCAP_CPU, or the number of a GPU
  endcap::c_api::SpecRows inputs;
  endcap::c_api::SpecRows outputs;
  endcap::Postprocessor engine;
};

namespace endcap::c_api {
namespace {

constexpr int64_t kNoLimit = -1;

void CheckLimit(int64_t max_detections) {
  if (max_detections >= kNoLimit) return;
  FailArgument("max_detections is ", max_detections, ": give how many are kept at most, or ",
               kNoLimit, " for all");
}

std::string GetName(const endcap_tensor_spec& spec, size_t i) {
  return std::string(spec.name) + " of item " + std::to_string(i);
}

PostprocessInput ReadInput(const endcap_postprocessor& handle, const endcap_postprocess_item& item,
                           size_t i) {
  PostprocessInput input;
  input.geometry = item.geometry;
  input.status = item.status;
  if (item.geometry_on_gpu != 0) input.geometry_device = Device::kCuda;
  if (item.status != 0) return input;  // its head is not read
  if (item.head == nullptr) FailArgument("item ", i, " has no head");
  const auto& specs = handle.inputs.rows();
  for (size_t k = 0; k < specs.size(); ++k) {
    const TensorView view = ReadTensor(item.head[k], handle.device, GetName(specs[k], i));
    input.head.push_back(
        {view.data, view.dtype, view.shape, view.rank, view.device, view.device_id});
  }
  return input;
}

PostprocessOutput ReadOutput(const endcap_postprocessor& handle,
                             const endcap_postprocess_item& item, size_t i) {
  if (item.outputs == nullptr) FailArgument("item ", i, " has no outputs");
  PostprocessOutput output;
  const auto& specs = handle.outputs.rows();
  for (size_t k = 0; k < specs.size(); ++k) {
    const bool wanted = item.outputs[k].data != nullptr;
    output.tensors.push_back(
        wanted ? ReadTensor(item.outputs[k], handle.device, GetName(specs[k], i)) : TensorView{});
  }
  return output;
}

void RunItems(endcap_postprocessor& handle, std::span<endcap_postprocess_item> items, void* stream,
              bool wait) {
  std::vector<PostprocessInput> inputs;
  std::vector<PostprocessOutput> outputs;
  for (size_t i = 0; i < items.size(); ++i) {
    inputs.push_back(ReadInput(handle, items[i], i));
    outputs.push_back(ReadOutput(handle, items[i], i));
  }
  if (!wait) return handle.engine.Enqueue(inputs, outputs, stream);
  std::vector<PostprocessItem> results = handle.engine.Run(inputs, outputs, stream);
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].num_detections = results[i].num_detections;
    items[i].item_status = static_cast<int32_t>(results[i].status.code);
    items[i].truncated = results[i].truncated ? 1 : 0;
    items[i].dropped = results[i].dropped;
  }
  KeepItemErrors(TakeMessages(results));
}

endcap_status GetSpecs(const endcap_postprocessor* handle, SpecRows endcap_postprocessor::* member,
                       const endcap_tensor_spec** rows, size_t* count) noexcept {
  return Guarded([&] {
    Require(handle, "postprocessor");
    ReturnRows((handle->*member).rows(), rows, count);
  });
}

}  // namespace
}  // namespace endcap::c_api

namespace c_api = endcap::c_api;

endcap_status endcap_postprocessor_new(const endcap_parameter* parameters, size_t count,
                                       int32_t device, int32_t threads,
                                       endcap_postprocessor** made) {
  return c_api::Guarded([&] {
    c_api::Require(static_cast<const void*>(made), "made");
    *made = nullptr;
    const auto params = endcap::ParsePostprocessParams(c_api::ReadParameters(parameters, count));
    *made = new endcap_postprocessor(params, device, threads);
  });
}

void endcap_postprocessor_free(endcap_postprocessor* postprocessor) { delete postprocessor; }

endcap_status endcap_postprocessor_inputs(const endcap_postprocessor* postprocessor,
                                          const endcap_tensor_spec** rows, size_t* count) {
  return c_api::GetSpecs(postprocessor, &endcap_postprocessor::inputs, rows, count);
}

endcap_status endcap_postprocessor_outputs(const endcap_postprocessor* postprocessor,
                                           const endcap_tensor_spec** rows, size_t* count) {
  return c_api::GetSpecs(postprocessor, &endcap_postprocessor::outputs, rows, count);
}

endcap_status endcap_postprocessor_run(endcap_postprocessor* postprocessor,
                                       endcap_postprocess_item* items, size_t count, void* stream,
                                       int32_t wait) {
  return c_api::GuardedRun([&] {
    c_api::Require(postprocessor, "postprocessor");
    c_api::RequireArray(items, "items", count);
    c_api::CheckStream(postprocessor->device, stream);
    // A handle on the CPU always waits, and so always writes its items.
    const bool waits = wait != 0 || postprocessor->device == ENDCAP_CPU;
    c_api::RunItems(*postprocessor, {items, count}, stream, waits);
  });
}

endcap_status endcap_nms(const float* boxes, const float* scores, const int32_t* class_ids,
                         size_t count, double iou_threshold, int64_t max_detections, int64_t* kept,
                         int64_t* kept_count) {
  return c_api::Guarded([&] {
    c_api::RequireArray(boxes, "boxes", count);
    c_api::RequireArray(scores, "scores", count);
    c_api::RequireArray(kept, "kept", count);
    c_api::Require(kept_count, "kept_count");
    c_api::CheckLimit(max_detections);
    const std::vector<int64_t> indices =
        endcap::Nms({boxes, 4 * count}, {scores, count},
                    {class_ids, class_ids == nullptr ? 0 : count}, {iou_threshold, max_detections});
    std::copy(indices.begin(), indices.end(), kept);
    *kept_count = static_cast<int64_t>(indices.size());
  });
}

endcap_status endcap_nms_cuda(const float* boxes, const float* scores, const int32_t* class_ids,
                              size_t count, double iou_threshold, int64_t max_detections,
                              int32_t device, void* stream, int64_t* kept, int64_t* kept_count) {
  return c_api::Guarded([&] {
    c_api::RequireArray(boxes, "boxes", count);
    c_api::CheckLimit(max_detections);
    endcap::NmsCuda(boxes, scores, class_ids, static_cast<int64_t>(count),
                    {iou_threshold, max_detections}, device, stream, kept, kept_count);
  });
}
