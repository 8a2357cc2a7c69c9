"""The same work by torchvision, DALI and CV-CUDA, as their users write it.

Each class raises ImportError where its library is missing; the caller leaves its rows out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gpu.inputs import Sizes

_PAD = 114
_SCORE, _IOU, _MAX_DETECTIONS = 0.25, 0.7, 300


def _letterbox(sizes: Sizes) -> tuple[int, int]:
    """Return the height of the resized image, and the rows of padding above it."""
    height = round(sizes.height * sizes.size / sizes.width)
    return height, (sizes.size - height) // 2


class Torchvision:
    """torchvision.transforms.v2 and torchvision.ops on a batch of images of one size."""

    name = "torchvision"

    def __init__(self, sizes: Sizes) -> None:
        import torch
        from torchvision import io, ops
        from torchvision.transforms.v2 import functional

        if not torch.cuda.is_available():
            raise ImportError("torch finds no GPU")
        self._torch: Any = torch
        self._io: Any = io
        self._ops: Any = ops
        self._functional: Any = functional
        self._sizes = sizes

    def upload_images(self, images: list[Any]) -> Any:
        """Return uint8 [N, 3, H, W] on the GPU."""
        return self._torch.from_numpy(np.stack(images)).cuda().permute(0, 3, 1, 2).contiguous()

    def upload_heads(self, heads: Any) -> Any:
        """Return the heads on the GPU."""
        return self._torch.from_numpy(heads).cuda()

    def preprocess(self, batch: Any) -> Any:
        """Turn uint8 [N, 3, H, W] into float32 [N, 3, size, size]."""
        height, above = _letterbox(self._sizes)
        size = self._sizes.size
        resized = self._functional.resize(batch, [height, size], antialias=False)
        padded = self._functional.pad(resized, [0, above, 0, size - height - above], fill=_PAD)
        return padded.to(self._torch.float32) / 255

    def decode(self, files: list[bytes]) -> Any:
        """Decode JPEG files by nvJPEG and preprocess them."""
        data = [self._torch.frombuffer(bytearray(file), dtype=self._torch.uint8) for file in files]
        decoded = self._io.decode_jpeg(data, mode=self._io.ImageReadMode.RGB, device="cuda")
        return self.preprocess(self._torch.stack(decoded))

    def postprocess(self, heads: Any) -> list[Any]:
        """Return boxes, scores and classes image by image, as most programs do it."""
        found = []
        for head in heads:
            scores, class_ids = head[4:].max(dim=0)
            passed = scores > _SCORE
            scores, class_ids = scores[passed], class_ids[passed]
            boxes = self._ops.box_convert(head[:4, passed].T, "cxcywh", "xyxy")
            kept = self._ops.batched_nms(boxes, scores, class_ids, _IOU)[:_MAX_DETECTIONS]
            found.append((boxes[kept], scores[kept], class_ids[kept]))
        return found

    @staticmethod
    def to_host(tensor: Any) -> Any:
        """Return the tensor as an array."""
        return tensor.cpu().numpy()


class CvCuda:
    """CV-CUDA's operators on the legacy default stream."""

    name = "CV-CUDA"

    def __init__(self, sizes: Sizes) -> None:
        import cvcuda
        import torch

        self._cvcuda: Any = cvcuda
        self._torch: Any = torch
        self._stream = cvcuda.as_stream(0)
        self._sizes = sizes

    def upload_images(self, images: list[Any]) -> Any:
        """Return uint8 [N, H, W, 3] on the GPU."""
        batch = self._torch.from_numpy(np.stack(images)).cuda()
        return self._cvcuda.as_tensor(batch, "NHWC")

    def preprocess(self, batch: Any) -> Any:
        """Turn uint8 [N, H, W, 3] into float32 [N, 3, size, size]."""
        cvcuda, on, size = self._cvcuda, {"stream": self._stream}, self._sizes.size
        height, above = _letterbox(self._sizes)
        shape = (self._sizes.batch, height, size, 3)
        resized = cvcuda.resize(batch, shape, cvcuda.Interp.LINEAR, **on)
        padded = cvcuda.copymakeborder(
            resized,
            border_mode=cvcuda.Border.CONSTANT,
            border_value=[_PAD] * 3,
            top=above,
            bottom=size - height - above,
            left=0,
            right=0,
            **on,
        )
        return cvcuda.reformat(
            cvcuda.convertto(padded, np.float32, scale=1 / 255, **on), "NCHW", **on
        )

    def to_host(self, tensor: Any) -> Any:
        """Return the tensor as an array."""
        return self._torch.as_tensor(tensor.cuda(), device="cuda").cpu().numpy()


class Dali:
    """A pipeline of DALI's own operators; a call waits for its result."""

    name = "DALI"

    def __init__(self, sizes: Sizes) -> None:
        from nvidia.dali import Pipeline, fn, types

        size, options = sizes.size, {"exec_async": False, "exec_pipelined": False}
        self._pipeline: Any = Pipeline(sizes.batch, 4, 0, prefetch_queue_depth=1, **options)
        with self._pipeline:
            encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1)
            images = fn.decoders.image(encoded, device="mixed", jpeg_fancy_upsampling=True)
            resized = fn.resize(images, size=[size, size], mode="not_larger", antialias=False)
            tensors = fn.crop_mirror_normalize(
                resized,
                crop=(size, size),
                rounding="truncate",
                out_of_bounds_policy="pad",
                fill_values=[_PAD / 255] * 3,
                std=[255.0] * 3,
                output_layout="CHW",
            )
            self._pipeline.set_outputs(tensors)
        self._pipeline.build()

    def decode(self, files: list[bytes]) -> Any:
        """Decode JPEG files by nvJPEG and preprocess them."""
        self._pipeline.feed_input("encoded", [np.frombuffer(file, np.uint8) for file in files])
        return self._pipeline.run()[0]

    @staticmethod
    def to_host(images: Any) -> Any:
        """Return the tensors as an array."""
        return images.as_cpu().as_array()


PEERS = (Torchvision, CvCuda, Dali)
