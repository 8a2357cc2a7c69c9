"""What comes out at the end, in the memory of a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap.cuda_array import CudaArray
from endcap.detections import Classification, Detections, ImageDetections


@dataclass(frozen=True)
class CudaDetections:
    """The detections of a batch of B images; rows beyond num_detections are 0, their index -1.

    Attributes:
        num_detections: int32 [B].
        boxes: float32 [B, K, 4], x1, y1, x2, y2 in pixels of the source image.
        scores: float32 [B, K], best first.
        class_ids: int32 [B, K].
        indices: int32 [B, K], the anchor that each box came from.
        status: int32 [B], ``endcap.Status`` of each image.
        truncated: bool [B] in host memory, whether max_candidates cut the candidates; None after
            ``Postprocessor.enqueue``, which does not wait to learn it.
        keypoints: float32 [B, K, P, 3] of ``yolov8_pose``; else None.
        angles: float32 [B, K] of ``yolov8_obb``, as in ``ImageDetections``; else None.
        mask_size: int32 [B, 2] of ``yolov8_seg``, height and width of each image's masks; else
            None.
        packed_masks: uint8 [B, K, height, ceil(width / 8)] of ``yolov8_seg``, a bit a pixel as
            ``numpy.unpackbits`` reads them, where ``Postprocessor(packed_masks=True)`` asked for
            it; else None.
        rle: of ``yolov8_seg``, in host memory, for each image its detections' masks as COCO's
            compressed run lengths; None after ``Postprocessor.enqueue``, which does not wait for
            them, and for other heads.
        has_source_masks: whether masks are of the source image.

    Indexing, iterating and ``to_supervision`` copy all of it to the host first, each time: with
    many images call ``to_numpy`` once.
    """

    num_detections: CudaArray
    boxes: CudaArray
    scores: CudaArray
    class_ids: CudaArray
    indices: CudaArray
    status: CudaArray
    truncated: npt.NDArray[np.bool_] | None
    keypoints: CudaArray | None = None
    angles: CudaArray | None = None
    mask_size: CudaArray | None = None
    packed_masks: CudaArray | None = None
    rle: list[list[bytes]] | None = None
    has_source_masks: bool = True

    def to_numpy(self) -> Detections:
        """Return a copy in host memory; waits for it.

        Raises:
            CudaError: the work, or earlier work on its stream, failed.
        """
        return Detections(
            num_detections=self.num_detections.to_numpy(),
            boxes=self.boxes.to_numpy(),
            scores=self.scores.to_numpy(),
            class_ids=self.class_ids.to_numpy(),
            indices=self.indices.to_numpy(),
            status=self.status.to_numpy(),
            truncated=self.truncated,
            keypoints=_copied(self.keypoints),
            angles=_copied(self.angles),
            mask_size=_copied(self.mask_size),
            packed_masks=_copied(self.packed_masks),
            rle=self.rle,
            has_source_masks=self.has_source_masks,
        )

    def __len__(self) -> int:
        return len(self.num_detections)

    def __getitem__(self, image: int) -> ImageDetections:
        return self.to_numpy()[image]

    def __iter__(self) -> Iterator[ImageDetections]:
        return iter(self.to_numpy())

    def to_supervision(self) -> Any:
        """Return the only image's ``supervision.Detections``, as ``Detections.to_supervision``."""
        return self.to_numpy().to_supervision()


def _copied(array: CudaArray | None) -> npt.NDArray[Any] | None:
    return None if array is None else array.to_numpy()


@dataclass(frozen=True)
class CudaClassification:
    """The best classes of a batch of B images, best first.

    Attributes:
        scores: float32 [B, top_k].
        class_ids: int32 [B, top_k]; -1 where the image was bad.
        probabilities: float32 [B, num_classes], the scores of all classes in class order.
        status: int32 [B].
    """

    scores: CudaArray
    class_ids: CudaArray
    probabilities: CudaArray
    status: CudaArray

    def to_numpy(self) -> Classification:
        """Return a copy in host memory; waits for it.

        Raises:
            CudaError: the work, or earlier work on its stream, failed.
        """
        return Classification(
            self.scores.to_numpy(),
            self.class_ids.to_numpy(),
            self.probabilities.to_numpy(),
            self.status.to_numpy(),
        )

    def __len__(self) -> int:
        return len(self.status)
