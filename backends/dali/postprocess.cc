// fn.endcap.postprocess: raw heads -> detections in pixels of the source image.
#include "parameters.h"
#include "postprocess_operator.h"

namespace endcap::operators {
namespace {

constexpr int kMaxInputs = 6;  // efficient_nms's four, geometry and status
constexpr const char* kHeadType = "TensorList of float or float16";
constexpr const char* kNextInput = "The head's next tensor; after its last geometry, then status.";

class PostprocessCpu : public PostprocessOperator {
 public:
  explicit PostprocessCpu(const ::dali::OpSpec& spec) : PostprocessOperator(spec, false) {}
};

class PostprocessGpu : public PostprocessOperator {
 public:
  explicit PostprocessGpu(const ::dali::OpSpec& spec) : PostprocessOperator(spec, true) {}
};

}  // namespace

DALI_REGISTER_OPERATOR(endcap__Postprocess, PostprocessCpu, ::dali::CPU);
DALI_REGISTER_OPERATOR(endcap__Postprocess, PostprocessGpu, ::dali::GPU);

DALI_SCHEMA(endcap__Postprocess)
    .DocStr(R"(Raw heads of a detector or classifier to what clients read.

The numbers are those of ``endcap.Postprocessor`` with the same parameters, bit for bit. Inputs are
the head's tensors in their order (``head``; ``logits`` and ``boxes``; ...), float or float16, then
optionally the ``geometry`` and the ``status`` of ``fn.endcap.preprocess``: with them boxes are in
pixels of the file, and a blank image has no detections.

Returns, with K = ``max_detections`` rows, of which unused ones are 0 and their index is -1:

* ``num_detections``: int32 [1]
* ``detection_boxes``: float32 [K, 4] = x1, y1, x2, y2
* ``detection_scores``: float32 [K]
* ``detection_classes``: int32 [K]
* ``detection_indices``: int32 [K], which anchor was kept
* what only some heads have: ``detection_keypoints`` float32 [K, P, 3] (heads with
  keypoints), ``detection_angles`` float32 [K] (with angles), ``mask_size`` int32 [2] and
  ``detection_masks`` uint8 [K, height, width / 8] of packed bits (with masks)
* with ``output_status``, ``status``: int32 [1]

``head="classification"`` returns ``class_scores`` float32 [top_k], ``class_ids`` int32 [top_k] and
``class_probabilities`` float32 [num_classes] instead.

On the GPU a ``status`` in GPU memory is waited for, and without ``output_status`` the result.)")
    .NumInput(1, kMaxInputs)
    .InputDevice(0, kMaxInputs, ::dali::InputDevice::MatchBackendOrCPU)
    .InputDox(0, "head", kHeadType, "The head's first tensor.")
    .InputDox(1, "input_1", kHeadType, kNextInput)
    .InputDox(2, "input_2", kHeadType, kNextInput)
    .InputDox(3, "input_3", kHeadType, kNextInput)
    .InputDox(4, "input_4", kHeadType, kNextInput)
    .InputDox(5, "input_5", kHeadType, kNextInput)
    .OutputFn(CountOutputs)
    .AddArg("head", PostprocessDoc("head", "always to be given"), DALI_STRING)
    .AddOptionalArg("output_status",
                    "gives one more output, status int32 [1]: of the image, or 4 for a head that "
                    "cannot be read, which ends the pipeline otherwise",
                    false)
    .AddOptionalArg<int64_t>("num_classes", PostprocessDoc("num_classes"), nullptr)
    .AddOptionalArg<float>("score_threshold", PostprocessDoc("score_threshold"), nullptr)
    .AddOptionalArg<std::vector<float>>("score_thresholds", PostprocessDoc("score_thresholds"),
                                        nullptr)
    .AddOptionalArg<std::vector<int>>("classes", PostprocessDoc("classes"), nullptr)
    .AddOptionalArg<float>("iou_threshold", PostprocessDoc("iou_threshold"), nullptr)
    .AddOptionalArg<int64_t>("max_candidates", PostprocessDoc("max_candidates"), nullptr)
    .AddOptionalArg<int64_t>("max_detections", PostprocessDoc("max_detections"), nullptr)
    .AddOptionalArg<bool>("multi_label", PostprocessDoc("multi_label"), nullptr)
    .AddOptionalArg<bool>("class_agnostic", PostprocessDoc("class_agnostic"), nullptr)
    .AddOptionalArg<std::string>("box_format", PostprocessDoc("box_format"), nullptr)
    .AddOptionalArg<std::string>("box_unit", PostprocessDoc("box_unit"), nullptr)
    .AddOptionalArg<std::vector<int>>("input_size", PostprocessDoc("input_size"), nullptr)
    .AddOptionalArg<std::string>("activation", PostprocessDoc("activation"), nullptr)
    .AddOptionalArg<int64_t>("top_k", PostprocessDoc("top_k"), nullptr)
    .AddOptionalArg<bool>("joined", PostprocessDoc("joined"), nullptr)
    .AddOptionalArg<std::string>("background", PostprocessDoc("background"), nullptr)
    .AddOptionalArg<std::string>("anchors", PostprocessDoc("anchors"), nullptr)
    .AddOptionalArg<std::string>("anchor_grid", PostprocessDoc("anchor_grid"), nullptr)
    .AddOptionalArg<float>("anchor_offset", PostprocessDoc("anchor_offset"), nullptr)
    .AddOptionalArg<std::vector<float>>("variances", PostprocessDoc("variances"), nullptr)
    .AddOptionalArg<std::string>("rotated_nms", PostprocessDoc("rotated_nms"), nullptr)
    .AddOptionalArg<std::string>("angle_range", PostprocessDoc("angle_range"), nullptr)
    .AddOptionalArg<std::string>("on_nan", PostprocessDoc("on_nan"), nullptr)
    .AddOptionalArg<int64_t>("mask_coefficients", PostprocessDoc("mask_coefficients"), nullptr)
    .AddOptionalArg<std::vector<int>>("prototype_size", PostprocessDoc("prototype_size"), nullptr)
    .AddOptionalArg<std::string>(
        "mask_resolution",
        "pixels of the masks: the prototypes' or the model's input's: one of prototype, input "
        "(always to be given with heads of masks)",
        nullptr)
    .AddOptionalArg<int64_t>("num_keypoints", PostprocessDoc("num_keypoints"), nullptr)
    .AddOptionalArg<int64_t>("keypoint_values", PostprocessDoc("keypoint_values"), nullptr)
    .MakeStateless();

}  // namespace endcap::operators
