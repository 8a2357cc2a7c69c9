"""What a server returns for images: its results by task, and how models are told apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endcap.detections import ImageDetections
from endcap.errors import InvalidArgumentError, Status
from endcap.predictions import ROW_COLUMNS, ClassScore, Detection
from endcap.segmentation import SegmentationMap

if TYPE_CHECKING:
    import PIL.Image

INPUT = "encoded"
# Those of a model that reads videos: the bytes of a file, or a URL.
VIDEO_INPUTS = frozenset({INPUT, "options"})
TIMESTAMP = "timestamp"  # optional, of models that track
TRACK_IDS = "track_ids"  # their output
# The output that Triton's classification extension takes the best elements of.
PROBABILITIES = "class_probabilities"


class Task(str, Enum):
    """What a served model returns: detections, classes, or the tensors of another network.

    Of a segmentation it is the class of each pixel.
    """

    detection = "detection"
    classification = "classification"
    segmentation = "segmentation"
    tensors = "tensors"

    @property
    def required(self) -> tuple[str, ...]:
        """The outputs that a model of this task must have."""
        return _REQUIRED[self]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that are read where the model has them."""
        return self.required + _OPTIONAL[self]


_REQUIRED = {
    Task.detection: (
        "num_detections",
        "detection_boxes",
        "detection_scores",
        "detection_classes",
        "detection_indices",
        "status",
    ),
    Task.classification: ("class_scores", "class_ids"),
    Task.segmentation: ("class_map_png",),
    Task.tensors: ("geometry",),
}
_OPTIONAL: dict[Task, tuple[str, ...]] = {
    Task.detection: (
        "detection_keypoints",
        "track_ids",
        "detection_angles",
        "detection_rle",
        "mask_size",
        "class_scores",
        "class_ids",
        "class_labels",
    ),
    Task.classification: ("class_labels", "status"),
    Task.segmentation: ("status",),
    Task.tensors: ("status",),
}
# Those of preprocess, which clients do not call.
_PREPROCESS_OUTPUTS = {"images", "geometry", "status"}
# The outputs that describe a whole image, which a response for one detection lacks.
_IMAGE_OUTPUTS = {"num_detections", "status"}


def why_no_task(outputs: Collection[str]) -> str:
    """Return what keeps clients from using a model for which `find_task` returns None."""
    task = Task.detection if "detection_boxes" in outputs else Task.classification
    if not set(outputs) & set(task.required):
        return f"its outputs are {', '.join(sorted(outputs))}"
    lacking = [name for name in task.required if name not in outputs]
    return f"of the outputs of {task.value} it lacks {', '.join(lacking)}"


def find_task(
    outputs: Collection[str], *, decoupled: bool = False, best_classes: bool = False
) -> Task | None:
    """Return the task of a model with these outputs, None for one that clients cannot use.

    A model with boxes is not a classifier, whatever other outputs it has. One with `geometry` and
    other outputs returns tensors, as an ensemble of `endcap init --head none`. A decoupled one may
    send a response for each detection: it needs no number of them and no status.

    Args:
        outputs: The names of its outputs.
        decoupled: Whether it may send several responses to a request.
        best_classes: Whether Triton's classification extension is used; it needs one output.
    """
    names = set(outputs)
    if "detection_boxes" in names:
        required = set(Task.detection.required) - (_IMAGE_OUTPUTS if decoupled else set())
        return Task.detection if names >= required else None
    if best_classes and PROBABILITIES in names:
        return Task.classification
    if names <= _PREPROCESS_OUTPUTS:
        return None
    return next((task for task in Task if names >= set(task.required)), None)


@dataclass(frozen=True)
class FramePosition:
    """Where in its video a frame is.

    Attributes:
        index: Of the video's frames, from 0; those that were left out count.
        seconds: Its time stamp, from that of the first frame.
        dropped: Frames of a live source between this one and the one before that came too fast.
    """

    index: int
    seconds: float
    dropped: int = 0


@dataclass(frozen=True, repr=False)
class ImageResult:
    """The result for one image, best score first; `error` is the reason when `status` is not "ok".

    Attributes:
        image: Its path, or "image N" with its position where it was given as bytes or an array.
        status: See above; `ok` tells whether it is "ok".
        detections: Of the task detection; empty for a classifier and for an image that failed.
        error: The error message; None for a good image.
        latency_ms: Of the image's last request, which all images of that request share: from its
            encoded bytes in memory to the result, with retries, the pauses between them and the
            wait for shared memory. In a stream it is from sending the request to its response.
            Reading the file, and the wait until fewer than `concurrency` requests are in flight, do
            not count. None if not sent.
        classes: Of the task classification.
        segmentation: Of the task segmentation; None for others and for an image that failed.
        task: The model's task.
        request_id: Of the last request of this image; the server's log has it. Empty if not sent.
        final: Whether no other result of this image follows; only of `detect_stream` it may be
            False.
        upright: Whether boxes, keypoints and masks are in pixels after the EXIF orientation; else,
            of a model that ignores the orientation, in those of the image as stored.
        frame: Of a model that reads videos: which frame it is.
        tensors: Of the task tensors: all outputs by name but `status`, NumPy arrays without the
            batch dimension.
    """

    image: str
    status: str
    detections: ImageDetections = field(default_factory=lambda: ImageDetections.from_list([]))
    error: str | None = None
    latency_ms: float | None = None
    classes: list[ClassScore] = field(default_factory=list)
    task: Task = Task.detection
    request_id: str = ""
    final: bool = True
    upright: bool = True
    frame: FramePosition | None = None
    tensors: Mapping[str, Any] = field(default_factory=dict)
    segmentation: SegmentationMap | None = None

    def __repr__(self) -> str:
        if not self.ok:
            return f"<ImageResult {self.image}: {self.status}, {self.error}>"
        if self.task is Task.detection:
            return f"<ImageResult {self.image}: {self.detections!r}>"
        if self.segmentation is not None:
            return f"<ImageResult {self.image}: {self.segmentation!r}>"
        contents = self.tensor_texts() if self.task is Task.tensors else self.classes
        return f"<ImageResult {self.image}: {', '.join(map(str, contents)) or 'no class'}>"

    @property
    def ok(self) -> bool:
        """Whether the image was processed; it may still have no detections."""
        return self.status == "ok"

    def tensor_texts(self) -> list[str]:
        """Return name, type and shape of each tensor, such as `heat float32 [17, 64, 48]`."""
        return [f"{name} {each.dtype} {[*each.shape]}" for name, each in self.tensors.items()]

    def above(self, score: float) -> ImageResult:
        """Return the result without detections and classes of a lower score."""
        if score <= 0 or not self.ok:
            return self
        return replace(
            self,
            detections=self.detections[self.detections.scores >= score],
            classes=[each for each in self.classes if each.score >= score],
        )

    @property
    def predictions(self) -> Sequence[Detection] | Sequence[ClassScore]:
        """The detections or, of the task classification, the classes; empty of other tensors."""
        return self.classes if self.task is Task.classification else self.detections

    def draw(
        self,
        image: Any = None,
        *,
        labels: Sequence[str] | None = None,
        within: tuple[int, int] | None = None,
    ) -> PIL.Image.Image:
        """Return a new picture with the result, a Pillow image, which notebooks show.

        That is boxes, labels, masks and keypoints; or the best class in a corner; or the colour of
        each pixel's class, and a legend.

        Args:
            image: As for `endcap.ImageDetections.draw`; None opens the file that the client read.
            labels: Names of classes by id, for results without labels.
            within: Width and height in pixels that the picture is scaled to fit.

        Raises:
            CorruptImageError: A file that Pillow cannot read.
            InvalidArgumentError: The image failed, or it was given as bytes or pixels and is
                missing here.
            OSError: A file that cannot be opened.
        """
        from endcap.drawing.draw import draw_class, draw_detections
        from endcap.drawing.pictures import open_for_drawing

        if not self.ok:
            raise InvalidArgumentError(
                f"{self.image} failed ({self.status}: {self.error}); look at `ok` first"
            )
        if self.task is Task.tensors:
            raise InvalidArgumentError(
                f"the model of {self.image} returns tensors, which cannot be drawn"
            )
        if image is None and not Path(self.image).is_file():
            raise InvalidArgumentError(
                f"{self.image} is not a file: give the image, as in result.draw(image)"
            )
        shown = self.image if image is None else image
        if self.segmentation is not None:
            return self.segmentation.draw(shown, labels=labels, upright=self.upright, within=within)
        with open_for_drawing(shown) as picture:
            if self.classes:
                return draw_class(picture, self.classes[0], labels, within=within)
            return draw_detections(
                picture, self.detections, labels, within=within, upright=self.upright
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the object that `endcap infer --json` prints for this image."""
        row: dict[str, Any] = {"image": self.image, "status": self.status}
        if self.task is Task.tensors:
            row["latency_ms"] = self.latency_ms
            row["tensors"] = {
                name: {"dtype": str(each.dtype), "shape": [*each.shape]}
                for name, each in self.tensors.items()
            }
        elif self.task is Task.segmentation:
            row |= {} if self.segmentation is None else self.segmentation.to_dict()
        else:
            key = "classes" if self.task is Task.classification else "detections"
            row[key] = [each.to_dict() for each in self.predictions]
        if self.error is not None:
            row["error"] = self.error
        if self.frame is not None:
            row["frame_index"] = self.frame.index
            row["pts_seconds"] = self.frame.seconds
            row["dropped"] = self.frame.dropped
        return row

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for each detection or class, for `pandas.DataFrame` and the like.

        Columns are image, status, class_id, label, score, x1, y1, x2, y2; angle of a rotated box;
        track_id of a tracked one; classification_id, classification_label, classification_score of
        a cascade; error of an image that failed. One without detections has one row, None from
        class_id on, and a class has no box. Keypoints and masks are in `to_dict` only. Of a
        segmentation a row is a class's, with pixels and fraction in place of score and box.
        """
        head = {"image": self.image, "status": self.status}
        end = {} if self.error is None else {"error": self.error}
        if self.segmentation is not None:
            return [{**head, **vars(each)} for each in self.segmentation.classes()]
        return [{**head, **each.to_row(), **end} for each in self.predictions] or [
            {**head, **dict.fromkeys(ROW_COLUMNS), **end}
        ]


class Results(list[ImageResult]):
    """The results for several images, in their order: a list with conversions."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the list that `endcap infer --json` prints."""
        return [result.to_dict() for result in self]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows of all images, see `ImageResult.to_rows`."""
        return [row for result in self for row in result.to_rows()]


def status_name(code: int) -> str:
    """Return the name of a `status` tensor's value, "internal" for one that does not exist."""
    try:
        return Status(code).label
    except ValueError:
        return Status.INTERNAL.label
