#include <array>

#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "common/fail.h"
#include "common/select_implementation.h"
#include "endcap/class_map.h"
#include "postprocess/outputs.h"

namespace endcap {
namespace {

// plan.mask.geometry: `geometry`, which is filled, where the input has one. Checks the head.
ClassMapPlan MakePlan(const PostprocessParams& params, const PostprocessInput& input,
                      Geometry& geometry) {
  const HeadParams& head = params.head;
  if (input.head.size() != 1) {
    FailArgument("head semantic came with ", input.head.size(), " tensors: it needs 1");
  }
  CheckHostTensor(MakeHeadSpecs(head).specs[0], input.head[0]);
  if (input.geometry != nullptr) geometry = Geometry::FromArray(input.geometry);
  const MaskPlan mask = {params.mask_resolution, head.input_height, head.input_width,
                         input.geometry == nullptr ? nullptr : &geometry};
  return {mask, params.class_map_resize == ClassMapResize::kNearest, head.num_classes,
          params.ignore_label};
}

void KeepClasses(const PostprocessParams& params, std::span<uint8_t> map) {
  if (params.head.classes.empty()) return;
  std::array<uint8_t, 256> ids;
  ids.fill(static_cast<uint8_t>(params.ignore_label));
  for (const int id : params.head.classes) ids[static_cast<size_t>(id)] = static_cast<uint8_t>(id);
  for (uint8_t& id : map) id = ids[id];
}

}  // namespace

MaskSize GetClassMapSize(const PostprocessParams& params, const PostprocessInput& input) {
  Geometry geometry;
  const ClassMapPlan plan = MakePlan(params, input, geometry);
  return ComputeClassMapSize(input.head[0], plan.mask);
}

void WriteClassMap(const PostprocessParams& params, const PostprocessInput& input,
                   const PostprocessOutput& output) {
  Geometry geometry;
  const ClassMapPlan plan = MakePlan(params, input, geometry);
  const ConstTensorView& head = input.head[0];
  const MaskSize size = ComputeClassMapSize(head, plan.mask);
  const TensorView& given = output.tensors[0];
  auto* map = static_cast<uint8_t*>(given.data);
  if (map != nullptr && (given.shape[0] != size.height || given.shape[1] != size.width)) {
    FailArgument("class_map is ", given.shape[0], "x", given.shape[1],
                 ": the map of this image has ", size.height, " rows and ", size.width, " columns");
  }
  std::vector<uint8_t> memory;
  if (map == nullptr && (output.png != nullptr || output.rle != nullptr)) {
    memory.resize(size.pixels());
    map = memory.data();
  }
  if (map != nullptr) {
    ComputeClassMap(head, plan, SelectImplementation(Stage::kMasks), map);
    KeepClasses(params, {map, size.pixels()});
  }
  if (output.png != nullptr) EncodeClassMapPng(map, size, *output.png);
  if (output.rle != nullptr) EncodeClassRles(map, size, CountRles(params), *output.rle);
  if (auto* size_out = Output<int32_t>(output, 1)) {
    size_out[0] = size.height;
    size_out[1] = size.width;
  }
}

}  // namespace endcap
