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

namespace endcap {

// Which of the equal descriptions of a rotated box is returned. kRaw: the network's angle, any
// value, with its width and height. kLe90: an angle of at least 0 and less than a quarter turn
// (pi/2 rounded to float32), for which width and height are exchanged where the box is turned by an
// odd number of quarter turns: what ultralytics' predict() returns. The corners are the same.
enum class AngleRange : int32_t { kRaw, kLe90 };

// How the boxes of an image's tiles are merged: by greedy suppression, or so that a box is united
// with those that it matches. The metric is intersection over union, or over the smaller box.
enum class Merge : int32_t { kNone, kNms, kNmm };
enum class MergeMetric : int32_t { kIou, kIos };

// How the class of a pixel follows from the logits of a semantic head. kBilinear: logits are
// interpolated as those of masks, and the greatest one wins. kNearest: it wins at the logits' size,
// and each pixel takes the class of one place, as always where the network gives class ids.
enum class ClassMapResize : int32_t { kBilinear, kNearest };

// box_decode -> nms -> detections: everything from raw head to packed output rows.
struct PostprocessParams {
  HeadParams head;
  double iou_threshold = 0.7;
  int max_detections = 300;  // rows of the outputs
  bool class_agnostic = false;
  RotatedNms rotated_nms = RotatedNms::kPolygon;             // yolov8_obb
  MaskResolution mask_resolution = MaskResolution::kSource;  // heads with masks
  AngleRange angle_range = AngleRange::kRaw;                 // heads with angles
  // Images come as tiles. Each is processed like an image, then the detections of all are merged in
  // source pixels. On the CPU only.
  Merge merge = Merge::kNone;
  MergeMetric merge_metric = MergeMetric::kIos;
  double merge_threshold = 0.5;  // kNms: suppressed where greater; kNmm: merged from it on
  // semantic: the classes are chosen at mask_resolution, or where the network gives them.
  ClassMapResize class_map_resize = ClassMapResize::kBilinear;
  int ignore_label = 255;  // semantic: of pixels whose class `classes` leaves out
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
// with keypoints (yolov8_pose, end2end_pose) detection_keypoints [K,P,3] = x, y in source pixels
// and visibility; with masks (yolov8_seg, end2end_seg, rtdetr_seg) mask_size int32 [2] = height,
// width of the masks and, where mask_resolution is not kSource, detection_masks uint8
// [K,height,ceil(width/8)] as of WritePackedMasks; with angles (yolov8_obb, end2end_obb)
// detection_angles [K], in radians, from the x axis to the side that the width measures, clockwise
// on the screen, in the range of angle_range: the detection_boxes are then the corners that the
// boxes have before they are rotated around their centres, and are not clipped. Classification:
// class_scores [top_k], class_ids int32 [top_k] (rows beyond the classes that multi_label or
// `classes` leave are 0 and -1), class_probabilities [num_classes] (all scores in class order),
// status int32 [1]. Semantic: class_map uint8 [height, width] of GetClassMapSize, which is known at
// run time only, map_size int32 [2] = height, width, status int32 [1]. Its pixels are classes (with
// one class, 1 where its logit is greater than 0, else 0), or ignore_label. An image without a
// result has a map_size of 0, 0, and whatever map it was given is full of ignore_label.
//
// With `merge`, detection_indices are the tile's number times the anchors (queries, rows) of a tile
// plus the anchor. A box that was united with others has the score, class and index of the best.
//
// Boxes that are mapped back by a geometry and have no area then are dropped: x1 < x2 and y1 < y2
// in every row (of rotated boxes, width and height are greater than 0), which a box in the padding
// of a letterbox fails once it is clipped. Such a box is not a candidate: it suppresses none, and
// takes no row from another. Without a geometry boxes are neither clipped nor dropped. Tests:
// tests/python/core/test_postprocess.py, on a GPU tests/fuzz/heads.cc.
std::vector<TensorSpec> PostprocessOutputs(const PostprocessParams& params);

// Whether the family has masks, and so also gives detection_rle, K strings: COCO's compressed RLE
// of masks of mask_size, as of EncodeMasks; unused ones are empty. Semantic gives class_rle, the
// same for each id from 0 to max(num_classes, 2) - 1, empty for one without pixels.
bool GivesRle(const PostprocessParams& params) noexcept;
int CountRles(const PostprocessParams& params) noexcept;  // K, or the number of ids

struct PostprocessInput {
  std::vector<ConstTensorView> head;  // in the order of HeadInputs(params.head)
  const float* geometry = nullptr;    // 8 values; null: boxes stay in pixels of the model's input
  int32_t status = 0;  // of the stages before; not 0: the image is blank and has no detections
  Device geometry_device = Device::kCpu;  // kCuda: memory of the postprocessor's GPU
  // With `merge` these alone: the image's tiles, each with its geometry. A status is the image's.
  std::vector<PostprocessInput> tiles = {};
};

// Where the results of one image go: views in the order of PostprocessOutputs. A view whose data is
// null is skipped, and what only it needs is not looked at: keypoints, mask coefficients,
// prototypes and mask logits that are not finite are then no error. Unused rows are 0, their index
// -1.
struct PostprocessOutput {
  std::vector<TensorView> tensors;
  // Where GivesRle; replaced by [num_detections], or of semantic by [CountRles], [0] without a map.
  std::vector<std::string>* rle = nullptr;
  std::string* png = nullptr;  // semantic: the map as a PNG file of gray class ids
};

// The size of an image's class_map, by the semantic head's tensor, mask_resolution and geometry.
// Throws kInvalidArgument for a tensor or a geometry that the head cannot have.
MaskSize GetClassMapSize(const PostprocessParams& params, const PostprocessInput& input);

struct PostprocessItem {
  ItemStatus status;
  int num_detections = 0;
  bool truncated = false;  // max_candidates cut the candidates
  int dropped = 0;         // anchors that on_nan kDrop left out, see BoxDecode
  // When the work on it began, by the steady clock, and the time of its stages, which follow one
  // another. 0 on a GPU, where stages are asynchronous, and for stages that did not run.
  int64_t start_ns = 0;
  int64_t box_decode_ns = 0;  // of a classifier: all of the work
  int64_t nms_ns = 0;
  int64_t output_ns = 0;  // boxes mapped to the source image, keypoints, masks
};

class PostprocessDevice;

// Turns raw heads into detections in source pixels, on the CPU or on one GPU. Reusable and
// thread-safe; on a GPU a batch is processed without a round trip to the host.
class Postprocessor {
 public:
  // threads: items processed at the same time on the CPU, 0: one for each CPU that the process may
  // run on; a GPU processes the batch as a whole and ignores it. Throws as Validate; for a GPU also
  // kUnsupported for `merge`, and for an anchor_grid or a head that only the CPU reads, and kCuda
  // when the device cannot be used.
  Postprocessor(const PostprocessParams& params, DeviceId device, int threads = 0);
  // On the CPU.
  explicit Postprocessor(const PostprocessParams& params, int threads = 0);
  ~Postprocessor();
  Postprocessor(const Postprocessor&) = delete;
  Postprocessor& operator=(const Postprocessor&) = delete;

  const PostprocessParams& params() const noexcept { return params_; }
  std::span<const TensorSpec> outputs() const noexcept { return outputs_; }  // PostprocessOutputs
  DeviceId device() const noexcept { return device_id_; }
  int threads() const noexcept;  // 1 on a GPU

  // Processes inputs[i] into outputs[i] and waits for the results. A bad value gives its own item a
  // status and empty detections (see HeadParams::on_nan), and changes no other item.
  //
  // Outputs are memory of the device. On the CPU heads and geometry are in CPU memory. On a GPU
  // each may be in CPU memory, which is read before the call returns, or in memory of that GPU;
  // work is enqueued on `stream` (a cudaStream_t; null: the legacy default stream), which the call
  // synchronises with. The CPU ignores `stream`.
  //
  // Throws kInvalidArgument when the spans differ in length, an output has a wrong shape, dtype or
  // device, or a geometry is in GPU memory on the CPU. A head with a wrong shape, dtype or count of
  // tensors is its item's status on the CPU, and kInvalidArgument for the call on a GPU, whose
  // kernels take the batch as a whole. A GPU also throws kUnsupported during a graph capture, kCuda
  // and kOutOfMemory.
  //
  // On the CPU, with the simd implementations, one thread and any head but semantic, the call
  // allocates only its result once a thread has had an item of that size; with more threads also
  // the thread pool's job. A thread keeps up to 16 MiB for each of some twenty arrays, and frees
  // larger ones at once.
  std::vector<PostprocessItem> Run(std::span<const PostprocessInput> inputs,
                                   std::span<const PostprocessOutput> outputs,
                                   void* stream = nullptr);

  // The same without the items: errors of an item are in its `status` output only. On a GPU the
  // call is asynchronous, and throws kUnsupported for `rle`, whose length is known only afterwards.
  // With heads and geometry in device memory it can be captured into a CUDA graph, after one call
  // with the same shapes has run outside of the capture. On the CPU the call returns when the work
  // is done.
  void Enqueue(std::span<const PostprocessInput> inputs, std::span<const PostprocessOutput> outputs,
               void* stream);

 private:
  void Check(std::span<const PostprocessInput> inputs,
             std::span<const PostprocessOutput> outputs) const;

  PostprocessParams params_;
  std::vector<TensorSpec> outputs_;
  DeviceId device_id_;
  std::unique_ptr<PostprocessDevice> device_;
};

}  // namespace endcap
