"""Every kernel of the library once, on small inputs, compared with the CPU.

Run as a part, and under memcheck and racecheck, whose reports follow the line of the case. Where
torch's profiler works, the kernels that ran are compared with those that the cases name.

python -m gpu_check.every_kernel --output FILE [--tiny]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parents[2]
# jpegs, sample_heads; and the modules beside this package
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "gpu")]

import jpegs  # noqa: E402
import sample_heads  # noqa: E402
from both_devices import GEOMETRY, both  # noqa: E402
from gpu_benchmark.gpus import TorchGpu, UnavailableError  # noqa: E402

import endcap  # noqa: E402
from gpu_check.machine import is_emulated  # noqa: E402
from gpu_check.records import KernelTime, Records  # noqa: E402
from gpu_check.smoke import upload  # noqa: E402

_NMS = ("MakeKeys", "OrderBoxes", "FindOverlaps", "ResolveChunk", "WriteCount")


@dataclass(frozen=True)
class Case:
    """A call that runs kernels and compares its result with the CPU's.

    Attributes:
        name: of the case.
        kernels: names of the kernels that it is there for, without template arguments.
        run: the call; AssertionError where the results differ.
        ways: of FusedKernel, the template arguments (arithmetic, way).
    """

    name: str
    kernels: tuple[str, ...]
    run: Callable[[], object]
    ways: tuple[tuple[int, int], ...] = ()


# Numbers of ResizeArithmetic (csrc/preprocess/resize/axis_taps.h).
_ARITHMETICS: tuple[dict[str, Any], ...] = (
    {"size": 64},
    {"size": 48, "interpolation": "bicubic"},
    {"size": 40, "antialias": True},
    {"size": 40, "quantize": "none"},
)


def _sources() -> dict[int, list[Any]]:
    """Return images by number of FusedVariant in csrc/preprocess/cuda/fused_launch.h."""
    random = np.random.default_rng(1)
    y = random.integers(0, 256, (45, 61), np.uint8)
    uv = random.integers(0, 256, (23, 31, 2), np.uint8)
    return {
        0: [jpegs.photo(61, 83, seed=1), jpegs.photo(60, 96, seed=2)],
        1: [jpegs.encode(jpegs.photo(61, 83, seed=3)), jpegs.encode(jpegs.photo(40, 50, seed=4))],
        2: [endcap.nv12((y, uv))],
        # A row of the source is wider than shared memory.
        3: [jpegs.photo(3, 40_000, channels=1, seed=5)[..., 0]],
    }


def _preprocess(images: list[Any], way: int, options: dict[str, Any]) -> None:
    pixel_format = "gray" if way == 3 else "rgb"
    expected = endcap.Preprocessor(**options)(images, pixel_format=pixel_format)
    actual = endcap.Preprocessor(**options, device="cuda")(images, pixel_format=pixel_format)
    np.testing.assert_array_equal(actual.images.to_numpy(), expected.images)


def _nms(count: int) -> None:
    random = np.random.default_rng(count)
    corners = random.uniform(0, 300, (count, 2))
    boxes = np.hstack([corners, corners + random.uniform(5, 40, (count, 2))]).astype(np.float32)
    scores = np.round(random.uniform(0, 1, count), 2).astype(np.float32)
    kept = endcap.nms(upload(boxes), upload(scores), 0.5, device="cuda").to_numpy()
    np.testing.assert_array_equal(kept, endcap.nms(boxes, scores, 0.5))


def _nms_rotated(method: Any) -> None:
    random = np.random.default_rng(9)
    angles = random.uniform(-7, 7, (90, 1))
    boxes = np.hstack([sample_heads.random_boxes(random, 90), angles]).astype(np.float32)
    scores = random.uniform(0, 1, 90).astype(np.float32)
    kept = endcap.nms_rotated(boxes, scores, 0.3, method=method, device="cuda").to_numpy()
    np.testing.assert_array_equal(kept, endcap.nms_rotated(boxes, scores, 0.3, method=method))


def _classify() -> None:
    logits = np.random.default_rng(5).normal(0, 3, (2, 300)).astype(np.float32)
    options: dict[str, Any] = {"head": "classification", "num_classes": 300, "top_k": 5}
    expected: Any = endcap.Postprocessor(**options)(logits)
    on_gpu: Any = endcap.Postprocessor(**options, device="cuda")(logits)
    actual = on_gpu.to_numpy()
    np.testing.assert_array_equal(actual.class_ids, expected.class_ids)
    np.testing.assert_array_equal(actual.scores, expected.scores)


def _batch(images: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.stack([image[name] for image in images]) for name in images[0]}


def _masks(**options: Any) -> None:
    tensors = _batch(
        [
            sample_heads.seg_outputs(seed, anchors=90, num_classes=3, size=(40, 80))
            for seed in (0, 1)
        ]
    )
    both(
        tensors,
        np.repeat(GEOMETRY, 2, axis=0),
        head="yolov8_seg",
        num_classes=3,
        mask_coefficients=8,
        prototype_size="40,80",
        input_size="160,320",
        max_detections=9,
        **options,
    )


def cases() -> Iterator[Case]:
    """Return the cases; together they name every kernel."""
    for way, images in _sources().items():
        for arithmetic, options in enumerate(_ARITHMETICS):
            yield Case(
                f"preprocess, arithmetic {arithmetic}, way {way}",
                ("FusedKernel",),
                partial(_preprocess, images, way, options),
                ((arithmetic, way),),
            )
    yield Case("nms of 33 boxes", _NMS, lambda: _nms(33))
    yield Case("nms of 1500 boxes", ("SuppressLater",), lambda: _nms(1500))
    for method, kernel in (("polygon", "KeepByPolygons"), ("probiou", "KeepByProbiou")):
        yield Case(f"rotated nms, {method}", (kernel,), partial(_nms_rotated, method))
    v8 = np.stack([sample_heads.yolov8_head(s, anchors=301, num_classes=4) for s in (0, 1)])
    v5 = np.stack([sample_heads.yolov5_head(s, anchors=90, num_classes=4) for s in (0, 1)])
    e2e = np.stack([sample_heads.end2end_head(s, rows=40, num_classes=4) for s in (0, 1)])
    obb = np.stack([sample_heads.obb_head(s, anchors=90, num_classes=3) for s in (0, 1)])
    rtdetr = sample_heads.rtdetr_outputs(0, queries=60, num_classes=4, columns=4)
    pose = sample_heads.pose_head(0, anchors=90, num_classes=2, keypoints=5, values=3)[None]
    four: dict[str, Any] = {"num_classes": 4}
    for family, sample in sample_heads.FAMILIES.items():
        if family != "classification":
            options = {"head": family, "num_classes": 7, **sample.parameters}
            yield Case(f"{family}, two images", (), partial(both, sample.batch(2), **options))
    yield Case("yolov8", ("FilterYolov8", "WriteDetections"), lambda: both(v8, **four))
    yield Case("yolov8, float16", ("FilterYolov8",), lambda: both(v8.astype(np.float16), **four))
    yield Case(
        "yolov8, multi_label",
        ("FilterYolov8MultiLabel",),
        lambda: both(v8, multi_label=True, **four),
    )
    yield Case("yolov8, two classes", ("StoreLimits",), lambda: both(v8, classes="1,2", **four))
    yield Case("yolov5", ("FilterYolov5",), lambda: both(v5, head="yolov5", **four))
    yield Case("end2end", ("FilterEnd2End",), lambda: both(e2e, head="end2end", **four))
    yield Case(
        "efficient_nms",
        ("FilterDetectionRows",),
        lambda: both(
            sample_heads.efficient_nms_outputs(13),
            GEOMETRY[0],
            head="efficient_nms",
            num_classes=7,
        ),
    )
    yield Case(
        "rtdetr",
        ("FilterScoreRows",),
        lambda: both(_batch([rtdetr]), head="rtdetr", score_threshold=0.1, **four),
    )
    yield Case(
        "yolov8_pose",
        ("WriteDetections",),
        lambda: both(pose, head="yolov8_pose", num_classes=2, num_keypoints=5),
    )
    yield Case("classification", ("FilterClassification",), _classify)
    for method, kernel in (("polygon", "WriteByPolygons"), ("probiou", "WriteByProbiou")):
        yield Case(
            f"yolov8_obb, {method}",
            (kernel,),
            partial(both, obb, head="yolov8_obb", num_classes=3, rotated_nms=method),
        )
    yield Case(
        "end2end_obb",
        ("FilterEnd2End", "WriteBest"),
        lambda: both(
            sample_heads.FAMILIES["end2end_obb"].batch(2), head="end2end_obb", num_classes=7
        ),
    )
    yield Case(
        "masks as bits",
        ("SettleMasks", "WritePacked"),
        lambda: _masks(mask_resolution="input", packed_masks=True),
    )
    yield Case("masks as run lengths", ("WriteRunLengths",), lambda: _masks())


def names_of(case: Case) -> set[str]:
    """Return the kernels of a case as the profiler names them, parts of whole names."""
    fused = {f"FusedKernel<(ResizeArithmetic){a}, (FusedWay){w}>" for a, w in case.ways}
    return fused or set(case.kernels)


def main() -> int:
    """Run the cases; each prints its line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="no profiler")
    options = parser.parse_args()
    records = Records(options.output, is_emulated())
    gpu = None
    if not records.emulated and not options.tiny:
        try:
            gpu = TorchGpu()
        except UnavailableError as error:
            records.left_out.append(f"names of the kernels that ran: {error}")
    for case in cases():
        with records.check(case.name):
            case.run()
        if gpu is not None and records.checks[-1].passed:
            with records.part(f"{case.name}: kernels", optional=(UnavailableError,)):
                _check_names(gpu, records, case)
    print(f"{sum(check.passed for check in records.checks)} of {len(records.checks)} passed")
    return 1 if records.failed else 0


def _check_names(gpu: TorchGpu, records: Records, case: Case) -> None:
    found = gpu.kernels(case.run, rounds=1)
    records.kernels += [KernelTime(case.name, name, *found[name]) for name in found]
    missing = {name for name in names_of(case) if not any(name in each for each in found)}
    if missing:
        raise AssertionError(f"{sorted(missing)} did not run, but {sorted(found)}")


if __name__ == "__main__":
    sys.exit(main())
