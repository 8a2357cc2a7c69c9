#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "endcap/box_decode.h"
#include "endcap/error.h"
#include "endcap/geometry.h"
#include "endcap/masks.h"
#include "endcap/nms.h"
#include "endcap/params.h"
#include "endcap/tensor_view.h"
#include "endcap/thread_pool.h"

namespace endcap {

// box_decode -> nms -> detections: everything from raw head to packed output rows.
struct PostprocessParams {
  HeadParams head;
  double iou_threshold = 0.7;
  int max_detections = 300;  // rows of the outputs
  bool class_agnostic = false;
  RotatedNms rotated_nms = RotatedNms::kPolygon;             // yolov8_obb
  MaskResolution mask_resolution = MaskResolution::kSource;  // yolov8_seg
};

// Builds parameters from text. `head` names the family; the rest carry the names of the fields.
// Throws kInvalidArgument for an unknown name, an unknown head or an impossible value.
PostprocessParams ParsePostprocessParams(const ParameterList& list);

// The table: name, allowed values, and the value in `params`.
std::vector<ParameterInfo> DescribePostprocessParams(const PostprocessParams& params);

// Throws kInvalidArgument when `params` cannot be carried out.
void Validate(const PostprocessParams& params);

// Names, dtypes and shapes of one image's outputs. Detection families: num_detections int32 [1],
// detection_boxes [K,4], detection_scores [K], detection_classes int32 [K], detection_indices
// int32 [K], the family's own, status int32 [1], with K = max_detections. The family's own:
// yolov8_pose's detection_keypoints [K,P,3] = x, y in source pixels and visibility; yolov8_seg's
// mask_size int32 [2] = height, width of the masks and, where mask_resolution is not kSource,
// detection_masks uint8 [K,height,ceil(width/8)] as of WritePackedMasks; yolov8_obb's
// detection_angles [K], in radians: its detection_boxes are the corners that the boxes have before
// they are turned around their centres, and are not clipped. Classification: class_scores [top_k],
// class_ids int32 [top_k] (with multi_label the rows beyond the classes over the threshold are 0
// and -1), class_probabilities [num_classes] (all scores in class order), status int32 [1].
std::vector<TensorSpec> PostprocessOutputs(const PostprocessParams& params);

// Whether the family has masks, and so also gives detection_rle, K strings: COCO's compressed run
// lengths of masks of mask_size, as of EncodeMasks; unused ones are empty.
bool GivesRle(const PostprocessParams& params) noexcept;

struct PostprocessInput {
  std::vector<ConstTensorView> head;  // in the order of HeadInputs(params.head)
  const float* geometry = nullptr;    // 8 values; null: boxes stay in pixels of the model's input
  int32_t status = 0;  // of the stages before; not 0: the image is blank and has no detections
  Device geometry_device = Device::kCpu;  // kCuda: device memory; CudaPostprocessor only
};

// Where the results of one image go: views in the order of PostprocessOutputs. A view whose data is
// null is skipped, and what only it needs is not looked at: keypoints, mask coefficients and
// prototypes that are not finite are then no error. Unused rows are 0, their index -1.
struct PostprocessOutput {
  std::vector<TensorView> tensors;
  std::vector<std::string>* rle = nullptr;  // where GivesRle; replaced by [num_detections]
};

struct PostprocessItem {
  ItemStatus status;
  int num_detections = 0;
  bool truncated = false;  // max_candidates cut the candidates
};

// Raw heads -> detections in source pixels. Reusable and thread-safe.
class Postprocessor {
 public:
  // threads as in Preprocessor. Throws as Validate.
  explicit Postprocessor(const PostprocessParams& params, int threads = 0);

  const PostprocessParams& params() const noexcept { return params_; }
  std::span<const TensorSpec> outputs() const noexcept { return outputs_; }  // PostprocessOutputs
  int threads() const noexcept { return pool_.thread_count(); }

  // Processes inputs[i] into outputs[i]; a bad head gives its own item a status (and empty
  // detections) and touches no other. Throws kInvalidArgument when the spans differ in length or an
  // output has the wrong shape or dtype. On the simd implementations and with one thread, all it
  // allocates is the result, once a thread has had an item of that size; with more threads, the
  // pool's job too. A thread keeps up to 16 MiB for each of some twenty arrays; larger ones are
  // given back at once.
  std::vector<PostprocessItem> Run(std::span<const PostprocessInput> inputs,
                                   std::span<const PostprocessOutput> outputs);

 private:
  PostprocessParams params_;
  std::vector<TensorSpec> outputs_;
  ThreadPool pool_;
};

// The same on a GPU, for a whole batch without a round trip to the host. Reusable and thread-safe.
class CudaPostprocessor {
 public:
  // Throws as Validate, kUnsupported for a grid of anchors that only the CPU reads, and kCuda when
  // the device cannot be used.
  explicit CudaPostprocessor(const PostprocessParams& params, int device_id = 0);
  ~CudaPostprocessor();
  CudaPostprocessor(const CudaPostprocessor&) = delete;
  CudaPostprocessor& operator=(const CudaPostprocessor&) = delete;

  const PostprocessParams& params() const noexcept;
  std::span<const TensorSpec> outputs() const noexcept;  // PostprocessOutputs
  int device_id() const noexcept;

  // Processes inputs[i] into outputs[i] in the order of `stream` (a cudaStream_t; null: the legacy
  // default stream), without waiting. Heads and outputs are memory of the device (heads may be CPU
  // memory too, and are then read before the call returns), geometry either. What a bad head comes
  // to is its `status` output. Shapes and dtypes are checked first: throws kInvalidArgument for
  // them, kUnsupported for `rle`, kCuda and kOutOfMemory. With heads and geometry in device memory
  // the call can be captured into a CUDA graph, after one like it has run outside of the capture.
  void Enqueue(std::span<const PostprocessInput> inputs, std::span<const PostprocessOutput> outputs,
               void* stream);

  // Enqueue, and waits for the result: what each item came to, with the message of a bad one, and
  // run lengths of masks, made on the device.
  std::vector<PostprocessItem> Run(std::span<const PostprocessInput> inputs,
                                   std::span<const PostprocessOutput> outputs, void* stream);

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace endcap
