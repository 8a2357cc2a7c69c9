// Raw outputs of models to detections: every family with parameters of any kind, with both
// implementations.

#include "agreement.h"
#include "common/half.h"
#include "endcap/postprocess.h"

namespace endcap::fuzz {
namespace {

PostprocessParams PickParams(FuzzInput& input) {
  PostprocessParams params;
  HeadParams& head = params.head;
  head.family = static_cast<HeadFamily>(input.Int(0, int{kHeadFamilyCount} - 1));
  head.num_classes = input.Int(1, input.Happens(32) ? 90 : 12);
  head.box_format = input.PickEnum(BoxFormat::kCxcywh);
  head.box_unit = input.PickEnum(BoxUnit::kNormalized);
  head.activation = input.PickEnum(Activation::kSoftmax);
  head.input_height = input.Int(1, 64);
  head.input_width = input.Int(1, 64);
  head.score_threshold =
      input.Bool() ? input.Number(0.0, 1.0) : input.Pick(std::array{0.0, 0.5, 1.0});
  if (input.Happens(64)) head.classes.resize(input.Size(3));
  for (int& id : head.classes) id = input.Int(0, head.num_classes - 1);
  if (input.Happens(64) && head.family != HeadFamily::kClassification) {
    head.score_thresholds.resize(static_cast<size_t>(head.num_classes));
    for (double& threshold : head.score_thresholds) threshold = input.Number(0.0, 1.0);
  }
  head.max_candidates = input.Bool() ? 30000 : input.Int(1, 40);
  if (input.Bool()) head.multi_label = input.Bool();
  if (input.Bool()) head.top_k = input.Int(1, 12);
  head.joined = input.Bool();
  head.background = input.PickEnum(Background::kLast);
  head.anchors = input.PickEnum(AnchorSource::kNone);
  if (head.anchors == AnchorSource::kGrid) {
    const int levels = input.Int(0, 2);
    for (int i = 0; i < levels; ++i) {
      AnchorLevel level;
      level.stride = input.Number(8.0, 64.0);
      level.sizes.resize(input.Size(2));
      for (auto& side : level.sizes) side = {input.Number(0.001, 64.0), input.Number(0.001, 64.0)};
      head.anchor_grid.push_back(level);
    }
  }
  head.anchor_offset = input.Number(0.0, 1.0);
  head.mask_coefficients = input.Int(1, 5);
  head.prototype_height = input.Int(1, 16);
  head.prototype_width = input.Int(1, 24);
  head.num_keypoints = input.Int(1, 5);
  head.keypoint_values = input.Int(2, 3);
  params.iou_threshold = input.Number(0.0, 1.0);
  params.max_detections = input.Int(1, 20);
  params.class_agnostic = input.Bool();
  params.rotated_nms = input.PickEnum(RotatedNms::kProbiouFast);
  params.mask_resolution = input.PickEnum(MaskResolution::kSource);
  head.on_nan = input.PickEnum(OnNan::kDrop);
  params.angle_range = input.PickEnum(AngleRange::kLe90);
  if (IsSemantic(head.family)) {
    head.class_map = input.Bool();
    params.class_map_resize = input.PickEnum(ClassMapResize::kNearest);
    params.ignore_label = input.Int(0, 255);
  }
  return params;
}

// The last choices, so that shorter inputs have none.
void PickMerge(FuzzInput& input, PostprocessParams& params) {
  PostprocessParams merging = params;
  merging.merge = input.PickEnum(Merge::kNmm);
  merging.merge_metric = input.PickEnum(MergeMetric::kIos);
  merging.merge_threshold = input.Number(0.0, 1.0);
  try {
    Validate(merging);
    params = merging;
  } catch (const Error&) {  // not with this head
  }
}

// Tensors that fit a model's head, and views of them.
struct Head {
  std::vector<std::vector<uint8_t>> memory;
  std::vector<ConstTensorView> views;
};

std::vector<uint8_t> MakeNumbers(FuzzInput& input, Noise& noise, size_t count, DType dtype,
                                 double scale) {
  const int steps = input.Pick(std::array{3, 20, 1000, 1 << 20});
  const double low = input.Bool() ? 0.0 : -scale;
  std::vector<float> values(count);
  for (float& value : values) value = noise.Number(low, scale, steps);
  if (input.Happens(128)) Disturb(input, values);
  std::vector<uint8_t> bytes(count * GetElementSize(dtype));
  for (size_t i = 0; i < count; ++i) {
    if (dtype == DType::kUint8) {
      bytes[i] = static_cast<uint8_t>(noise.Below(12));
    } else if (dtype == DType::kFloat16) {
      const uint16_t half = FloatToHalf(values[i]);
      std::memcpy(bytes.data() + 2 * i, &half, sizeof(half));
    } else if (dtype == DType::kInt32) {
      const int32_t number =
          input.Happens(8) ? static_cast<int32_t>(input.Integer(-2, 1 << 30)) : noise.Below(12);
      std::memcpy(bytes.data() + 4 * i, &number, sizeof(number));
    } else if (dtype == DType::kInt64) {
      const int64_t number =
          input.Happens(8) ? input.Integer(-2, int64_t{1} << 40) : int64_t{noise.Below(12)};
      std::memcpy(bytes.data() + 8 * i, &number, sizeof(number));
    } else {
      std::memcpy(bytes.data() + 4 * i, &values[i], sizeof(float));
    }
  }
  return bytes;
}

Head MakeHead(FuzzInput& input, const HeadParams& params) {
  Noise noise(input.Word(2));
  Head head;
  const int64_t rows = input.Integer(1, input.Happens(16) ? 400 : 60);
  const bool other_dtypes = input.Bool();
  for (const TensorSpec& spec : HeadInputs(params)) {
    ConstTensorView view;
    const std::span<const DType> others = OtherDTypes(spec);
    view.dtype = other_dtypes && !others.empty() ? others.front() : spec.dtype;
    view.rank = spec.rank;
    for (size_t axis = 0; axis < static_cast<size_t>(spec.rank); ++axis) {
      view.shape[axis] = spec.shape[axis] < 0 ? rows : spec.shape[axis];
      if (IsSemantic(params.family)) view.shape[axis] = std::min(view.shape[axis], int64_t{24});
    }
    if (input.Happens(4)) view.shape[input.Size(3)] = input.Integer(0, rows);
    if (input.Happens(4)) view.rank = input.Int(0, 4);
    const double scale = input.Pick(std::array{1.0, 4.0, 64.0});
    head.memory.push_back(
        MakeNumbers(input, noise, static_cast<size_t>(view.size()), view.dtype, scale));
    view.data = head.memory.back().data();
    head.views.push_back(view);
  }
  return head;
}

// The outputs of an image, full of values that show where nothing was written.
struct Results {
  std::vector<std::vector<uint8_t>> memory;
  std::vector<OnGpu<uint8_t>> on_gpu;
  std::vector<std::string> rle;
  std::string png;
  PostprocessOutput output;

  Results(const PostprocessParams& params, Device device, uint32_t left_out, bool with_rle) {
    for (const TensorSpec& spec : PostprocessOutputs(params)) {
      TensorView view;
      view.dtype = spec.dtype;
      view.shape = spec.shape;
      view.rank = spec.rank;
      view.device = device;
      std::vector<uint8_t>& bytes = memory.emplace_back(view.size_bytes(), 0xA5);
      view.data = bytes.data();
      if (device == Device::kCuda) view.data = on_gpu.emplace_back(bytes).get();
      // A class map has the image's size: its run-length encodings and its file stand for it.
      if ((left_out & 1U) != 0 || spec.shape[0] < 0) view.data = nullptr;
      left_out >>= 1;
      output.tensors.push_back(view);
    }
    if (with_rle && GivesRle(params)) output.rle = &rle;
    if (with_rle && IsSemantic(params.head.family)) output.png = &png;
  }

  void AddTo(Outcome& outcome) const {
    for (size_t i = 0; i < memory.size(); ++i) {
      outcome.Add(on_gpu.empty() ? memory[i] : on_gpu[i].Read());
    }
    for (const std::string& text : rle) outcome.Add(std::string_view(text));
    outcome.Add(std::string_view(png));
  }
};

// Numbers of any kind, or those of a letterboxed image.
std::array<float, Geometry::kSize> PickGeometry(FuzzInput& input) {
  Geometry geometry;
  geometry.scale_x = static_cast<float>(input.Number(0.1, 3.0));
  geometry.scale_y = static_cast<float>(input.Number(0.1, 3.0));
  geometry.pad_x = static_cast<float>(input.Number(-16.0, 16.0));
  geometry.pad_y = static_cast<float>(input.Number(-16.0, 16.0));
  geometry.image_w = static_cast<float>(input.Int(0, 100));
  geometry.image_h = static_cast<float>(input.Int(0, 100));
  std::array<float, Geometry::kSize> values = geometry.ToArray();
  // Not the sizes: masks of many pixels tell no more than small ones.
  if (input.Happens(8)) values[input.Size(3)] = input.AnyFloat();
  return values;
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const std::string_view target = PickSimdTarget(input);
  PostprocessParams params = PickParams(input);
  try {
    Validate(params);
  } catch (const Error&) {  // the target `parameters` looks at these
    return 0;
  }
  const auto geometry = PickGeometry(input);
  const bool placed = input.Bool();
  const auto left_out = static_cast<uint32_t>(input.Happens(32) ? input.Byte() : 0);
  const bool with_rle = input.Bool();
  const Head head = MakeHead(input, params.head);
  PickMerge(input, params);
  const auto run = [&](DeviceId device, Outcome& outcome) {
    Postprocessor postprocessor(params, device, 1);
    Results results(params, device.type, left_out, with_rle);
    PostprocessInput item;
    item.head = head.views;
    item.geometry = placed ? geometry.data() : nullptr;
    if (params.merge != Merge::kNone) {
      PostprocessInput image;
      image.tiles.assign(2, item);
      item = image;
    }
    const auto items = postprocessor.Run(std::span(&item, 1), std::span(&results.output, 1));
    outcome.Add(items[0].status);
    outcome.Add(int64_t{items[0].num_detections});
    outcome.Add(int64_t{items[0].truncated});
    outcome.Add(int64_t{items[0].dropped});
    results.AddTo(outcome);
    return items[0].status;
  };
  ItemStatus status;
  const Outcome expected = RequireEqualPaths(target, HeadFamilyName(params.head.family),
                                             [&](Outcome& outcome) { status = run({}, outcome); });
  if (!HasGpu() || !expected.ok() || params.merge != Merge::kNone ||
      IsSemantic(params.head.family)) {
    return 0;
  }
  const Outcome actual = Capture([&](Outcome& outcome) { run({Device::kCuda, 0}, outcome); });
  if (actual.ok()) {
    RequireEqual(expected, actual, "scalar against cuda");
  } else {  // a GPU refuses shapes and dtypes before it enqueues anything
    Require(!status.ok() && status.code == actual.code, "refused on a GPU only: ", actual.message);
  }
  return 0;
}
