"""Head families: descriptions and parameters, for `endcap init` and docs/heads.md."""

from __future__ import annotations

from dataclasses import dataclass

from endcap.postprocess import Postprocessor

_THRESHOLDS = ("score_threshold", "score_thresholds", "classes")
_GENERAL = ("num_classes", *_THRESHOLDS, "max_candidates", "max_detections", "on_nan")
_BOXES = ("box_format", "box_unit", "input_size")
_SUPPRESSION = ("iou_threshold", "multi_label", "class_agnostic")
_ANCHORS = ("anchors", "anchor_grid", "anchor_offset", "variances")
_MASKS = ("mask_coefficients", "prototype_size", "mask_resolution")
_KEYPOINTS = ("num_keypoints", "keypoint_values")
_QUERIES = (*_GENERAL, "multi_label", *_BOXES, "activation", "joined", "background")
_YOLO = (*_GENERAL, *_SUPPRESSION, *_BOXES, "activation")


@dataclass(frozen=True)
class HeadFamily:
    """One family.

    Attributes:
        description: For docs/heads.md.
        parameters: Of postprocess that the family reads; the others change nothing for it.
    """

    description: str
    parameters: tuple[str, ...]


NO_HEAD = "none"  # outputs that are returned unread, by an ensemble without postprocess

HEAD_FAMILIES = {
    "yolov5": HeadFamily(
        """\
One row for each anchor: the box, the objectness, one score for each class. A candidate's score
is the objectness times the class score. YOLOv5 exports this.""",
        _YOLO,
    ),
    "yolox": HeadFamily(
        """\
The rows of `yolov5`, with boxes relative to the cells of a grid: YOLOX as its own exporter writes
it (`decode_in_inference` off, its default). The centre is (cell + offset) * stride, width and
height are e to the number, times the stride. Strides are 8, 16 and 32, so A follows from
`input_size` (8400 for 640,640); others are given as `anchor_grid`, each level with one size, the
stride: `8:8x8;16:16x16;32:32x32;64:64x64`. Exported with boxes decoded it is `yolov5`.""",
        (*_GENERAL, *_SUPPRESSION, "input_size", "activation", "anchor_grid"),
    ),
    "yolov8": HeadFamily(
        """\
One column for each anchor: four rows of boxes, then one row of scores for each class; there is
no objectness. YOLOv8, v9, 11 and 12 export this.""",
        _YOLO,
    ),
    "yolov8_seg": HeadFamily(
        """\
`yolov8` with M rows below the scores, and prototypes of masks: a detection's mask is where the
prototypes, each times the detection's number for it, add up to more than 0 inside its box
(YOLACT's method). Height and width of the prototypes are `prototype_size`. `mask_resolution`
says whose pixels a mask has; `mask_size` is their height and width. `detection_rle` has K
strings, COCO's compressed run-length encoding (RLE) of the masks, which pycocotools and
`endcap.masks.decode_rle` read (empty in rows that do not count). `detection_masks` has a bit
for each pixel, rows from the left, in whole bytes, as `numpy.unpackbits` reads them; not where
`mask_resolution` is `source`, as then each image's has another size. An output that is
not requested is not computed. Masks are computed in the boxes of the kept detections only.""",
        (*_YOLO, *_MASKS),
    ),
    "yolov8_pose": HeadFamily(
        """\
`yolov8` with more rows below the scores: x, y and visibility of each keypoint, or x and y where
`keypoint_values` is 2. `detection_keypoints` has x and y in pixels of the source image, clipped
to it, and the visibility as the network gives it (1 without one). Keypoints are read for the
detections that are kept, and with `on_nan` `drop` for all candidates.""",
        (*_YOLO, *_KEYPOINTS),
    ),
    "yolov8_obb": HeadFamily(
        """\
`yolov8` with a row of angles below the scores, in radians, from the x axis to the side that the
width measures, clockwise to the eye. `detection_boxes` are the boxes before they are rotated
around their centres by `detection_angles`, in pixels of the source image and not clipped to it.
Angles are those of the network, of any value; with `angle_range` `le90` they are at least 0 and
less than 90 degrees, and width and height are exchanged where needed, as ultralytics' `predict()`
returns them. The corners are the same.
`rotated_nms` says how boxes are compared: `polygon` by the exact overlap of the rectangles,
`probiou` by the probabilistic one of arXiv 2106.06072, `probiou_fast` by the latter, and so
that also suppressed boxes suppress, as ultralytics does it.""",
        (*_YOLO, "rotated_nms", "angle_range"),
    ),
    "end2end": HeadFamily(
        """\
One row for each detection: x1, y1, x2, y2, score, class. Overlaps are suppressed in the network
(YOLOv10, YOLO26, or an export with NMS inside); boxes are mapped back, and `iou_threshold` is
not used. What the network has left out by its own threshold (`conf` of Ultralytics' export,
0.25 by default) no lower `score_threshold` brings back.""",
        (*_GENERAL, *_BOXES, "activation"),
    ),
    "end2end_seg": HeadFamily(
        """\
`end2end` with M columns behind the class, and prototypes of masks: what Ultralytics exports of a
`segment` network with NMS inside. Masks are those of `yolov8_seg`.""",
        (*_GENERAL, *_BOXES, "activation", *_MASKS),
    ),
    "end2end_pose": HeadFamily(
        """\
`end2end` with the keypoints of each detection behind the class, as Ultralytics exports a `pose`
network with NMS inside. Keypoints are those of `yolov8_pose`.""",
        (*_GENERAL, *_BOXES, "activation", *_KEYPOINTS),
    ),
    "end2end_obb": HeadFamily(
        """\
One row for each rotated box: centre x, centre y, width, height, score, class, angle, as
Ultralytics exports an `obb` network with NMS inside. Boxes and angles are those of `yolov8_obb`;
nothing is suppressed again.""",
        (*_GENERAL, *_BOXES, "activation", "angle_range"),
    ),
    "rtdetr": HeadFamily(
        """\
One row for each query of a transformer, in two tensors, or in one (`head` `[*, 4 + C]`, boxes
first) where `joined` is true. Nothing is suppressed: every class of every query over the
threshold is a detection, the best K in all; `multi_label` `false` leaves each query its best
class. Boxes are centres and sizes in fractions by default, logits want a sigmoid, joined scores
nothing. DETR has `activation` `softmax` and `background` `last`: a column more, which
`num_classes` does not count. RF-DETR has a sigmoid and such a column, `background` `last`, after
fine-tuning; in its weights for COCO all 91 columns are category ids, `background` `none`.""",
        _QUERIES,
    ),
    "rtdetr_seg": HeadFamily(
        """\
`rtdetr` with a mask for each query, as RF-DETR-Seg has them: logits of `prototype_size`, and an
object where they are over 0. Each detection has its query's mask, in pixels of `mask_resolution`
and in the outputs of `yolov8_seg`. It is not cut by the detection's box, and may leave it.""",
        (*_QUERIES, "prototype_size", "mask_resolution"),
    ),
    "ssd": HeadFamily(
        """\
One row for each anchor: offsets of the box from the anchor, and scores; SSD, RetinaNet and
their kind. `background` says where a row of scores has a column for no object (which
`num_classes` does not count): `first` and a softmax by default, `none` and a sigmoid for
RetinaNet. `anchors` are a tensor in `box_format` and `box_unit`; or `grid`, and then
`anchor_grid` describes them and that input is missing; or `none`, where the boxes are decoded
already. Offsets are multiplied by `variances`, then the centre moves by parts of the anchor's
size, and the logarithms of width and height grow by log(1000/16) at most (`variances` are 0.1,
0.1, 0.2, 0.2 for SSD and 1 for RetinaNet). An anchor_grid is a list of levels, each a stride
and its widths and heights in pixels: `8:16x16,32x32;16:64x64` has two anchors in each cell of
8x8 pixels and one in each of 16x16.""",
        (*_GENERAL, *_SUPPRESSION, *_BOXES, "activation", "background", *_ANCHORS),
    ),
    "efficient_nms": HeadFamily(
        """\
The outputs of TensorRT's EfficientNMS plugin. The first `num_detections` rows count. Boxes are
mapped back; nothing is suppressed again, and `iou_threshold` is not used. `background` is as of
`detections`.""",
        (*_GENERAL, *_BOXES, "background"),
    ),
    "detections": HeadFamily(
        """\
Detections that are finished inside the network, as torchvision's detectors give them: boxes,
scores and class ids, one row for each. Boxes are mapped back; nothing is suppressed again, and
`iou_threshold` is not used. `background` says whether a class id is for no object: `none`, ids
are returned as they are (those of torchvision's networks for COCO go from 1 to 90, with
`num_classes` 91); `first`, id 1 is returned as class 0, and rows of id 0 are left out; `last`,
rows of id `num_classes` are left out.""",
        (*_GENERAL, *_BOXES, "background"),
    ),
    "classification": HeadFamily(
        """\
One number for each class. The outputs hold the best `top_k` classes, best first (of equal
scores the lower class), and the scores of all classes in their order. With `multi_label` `true`
it holds only classes whose score is greater than `score_threshold`, at most `top_k`; the rows
beyond them have score 0 and id -1. Then `activation` is `sigmoid`, or `none` where the network
has applied it. Without `multi_label` no threshold is used. With `classes` only these can be in
the result; the scores of all classes are still returned.""",
        ("num_classes", "top_k", "activation", "multi_label", *_THRESHOLDS),
    ),
}


def readable_families() -> list[str]:
    """Return the head families that postprocess reads, as its parameter table names them."""
    (row,) = (row for row in Postprocessor(threads=1).describe() if row.name == "head")
    return row.allowed.removeprefix("one of ").split(", ")
