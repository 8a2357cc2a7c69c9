"""Writes docs/supported.md: stages, devices, images, tensors and heads, and where they can be used.

python scripts/supported_page.py > docs/supported.md

Values are read from the core, from signatures, and from the sources of what cannot be imported
everywhere (the C API, the Triton backends, the DALI operators); files are decoded to see which can.
"""

from __future__ import annotations

import inspect
import io
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from parameter_tables import table
from PIL import Image

import endcap
from endcap import yuv
from endcap.python_backend.postprocess_stage import PostprocessStage
from endcap.python_backend.preprocess_dali_stage import PreprocessDaliStage
from endcap.python_backend.preprocess_stage import PreprocessStage
from endcap.repository.head_families import HEAD_FAMILIES
from endcap.triton.tensor_contract import postprocess_contract, preprocess_contract

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))  # jpegs

import jpegs  # noqa: E402

INTRODUCTION = """\
# What is supported where

Made from the code by `python scripts/supported_page.py > docs/supported.md`; a test compares.

Look up here whether a stage, a device, a kind of image or a head can be used from the interface
that you have. GPU means a build with CUDA and an NVIDIA GPU, see [On a GPU](cuda.md); what a
machine can run, `endcap doctor` and `endcap.implementations()` say.
"""

CPU, GPU, BOTH, NO = "CPU", "GPU", "CPU, GPU", "-"
Y4M = "as a Y4M file"
FRONTS = ("Python", "Triton backends", "Python-backend models", "DALI operators", "C API")


def main() -> None:
    """Print the page."""
    parts = [INTRODUCTION, implementations(), stages(), images(), files(), tensors(), heads()]
    print("\n\n".join(part.strip() for part in parts))


def implementations() -> str:
    """Return the section of the alternative implementations of each stage."""
    rows = endcap.implementations()
    names = list(dict.fromkeys(row.kind for row in rows))
    known = {(row.stage, row.kind) for row in rows}
    # The GPU's masks belong to its postprocess and cannot be forced by themselves.
    if not (ROOT / "csrc" / "postprocess" / "cuda" / "masks.cu").exists():
        raise SystemExit("csrc/postprocess/cuda/masks.cu is gone: mend the note about masks")
    return "\n\n".join(
        [
            "## Implementations",
            "`scalar` is the definition, `simd` is chosen where the CPU has SSE4.2 with AES or "
            'more, `cuda` by `device="cuda"` or an instance of `KIND_GPU`. '
            "`endcap.force_implementation` and `ENDCAP_FORCE_IMPLEMENTATION` force one.",
            table(
                ["stage", *names],
                (
                    [f"`{stage}`", *(yes((stage, name) in known) for name in names)]
                    for stage in dict.fromkeys(row.stage for row in rows)
                ),
            ),
            "`nms` includes that of rotated boxes. On a GPU the kernels of postprocess make the "
            "masks; they have no name of their own.",
        ]
    )


def stages() -> str:
    """Return the section of what each interface offers, and on which device."""
    header = read("csrc/include/endcap/c_api.h")
    preprocess_backend = read("backends/preprocess/preprocess_model.cc")
    postprocess_backend = read("backends/postprocess/postprocess_model.cc")
    operators = dali_operators()
    rows = {
        "decode to pixels": [
            by_signature(endcap.decode),
            NO,
            NO,
            NO,
            in_c(header, "endcap_decode"),
        ],
        "preprocess": [
            by_signature(endcap.Preprocessor),
            by_engine(preprocess_backend, "Preprocessor"),
            by_target(PreprocessStage),
            operators["Preprocess"],
            in_c(header, "endcap_preprocessor_new"),
        ],
        "preprocess decoded images": [
            by_signature(endcap.Preprocessor),
            NO,
            NO,
            operators["ResizeNormalize"],
            in_c(header, "endcap_preprocessor_new"),
        ],
        "regions of interest": [
            by_signature(endcap.preprocess, needs="rois"),
            by_engine(preprocess_backend, "Preprocessor", needs="images[i].rois"),
            by_target(PreprocessStage, needs="_run_regions"),
            dali_regions(),
            in_c(header, "endcap_preprocessor_run_rois"),
        ],
        "preprocess by DALI's operators": [NO, NO, by_target(PreprocessDaliStage), NO, NO],
        "postprocess: heads to detections or classes": [
            by_signature(endcap.Postprocessor),
            by_engine(postprocess_backend, "Postprocessor"),
            by_target(PostprocessStage),
            operators["Postprocess"],
            in_c(header, "endcap_postprocessor_new"),
        ],
        "`box_decode` alone": [
            by_signature(endcap.box_decode),
            NO,
            NO,
            operators.get("BoxDecode", NO),
            in_c(header, "endcap_box_decode"),
        ],
        "`nms` alone": [
            by_signature(endcap.nms),
            NO,
            NO,
            operators["Nms"],
            in_c(header, "endcap_nms"),
        ],
        "`nms_rotated` alone": [
            by_signature(endcap.nms_rotated),
            NO,
            NO,
            operators.get("NmsRotated", NO),
            in_c(header, "endcap_nms_rotated"),
        ],
        "`rotated_iou` alone": [by_signature(endcap.rotated_iou), NO, NO, NO, NO],
        "RLE of masks alone": [by_signature(endcap.masks.encode_rle), NO, NO, NO, NO],
    }
    return "\n\n".join(
        [
            "## Stages and devices",
            "Suppression and masks are part of postprocess; the rows `alone` are functions for "
            "candidates and bitmaps of your own. The Python-backend models are "
            "`preprocess_python`, `preprocess_dali` and `postprocess_python`.",
            table(["", *FRONTS], ([name, *cells] for name, cells in rows.items())),
            "For regions on a GPU the CPU decodes JPEG files, as far down as the regions reach. "
            "Regions of YUV need its planes in host memory.",
        ]
    )


def by_signature(function: Callable[..., Any], *, needs: str = "") -> str:
    """Return the devices of a function or class: both where it has the argument `device`."""
    names = inspect.signature(function).parameters
    if needs and needs not in names:
        return NO
    return BOTH if "device" in names else CPU


def by_target(stage: type, *, needs: str = "") -> str:
    """Return the devices of a stage of the Python backend: it takes a `target`, or is the CPU's."""
    if needs and not hasattr(stage, needs):
        return NO
    return BOTH if "target" in inspect.signature(stage).parameters else CPU


def by_engine(source: str, engine: str, *, needs: str = "") -> str:
    """Return the devices of a backend's model: those for which its engine is made."""
    if needs not in source:
        return NO
    return BOTH if re.search(rf"make_shared<{engine}>\(params_, device,", source) else CPU


def in_c(header: str, name: str) -> str:
    """Return the devices of a C function and its variants: both with a device or a stream."""
    prototypes = re.findall(
        rf"ENDCAP_C endcap_status {name}(?:_cuda|_on_stream)?\(([^)]*)\);", header
    )
    if not prototypes:
        return NO
    return BOTH if any(re.search(r"device|void\* stream", each) for each in prototypes) else CPU


def dali_operators() -> dict[str, str]:
    """Return the operators' devices, by the names of their schemas."""
    devices: dict[str, set[str]] = {}
    for source in sorted((ROOT / "backends" / "dali").glob("*.cc")):
        for name, device in re.findall(
            r"DALI_REGISTER_OPERATOR\(endcap__(\w+), \w+, ::dali::(\w+)\)",
            source.read_text(encoding="utf-8"),
        ):
            devices.setdefault(name, set()).add(
                CPU if device == "CPU" else GPU
            )  # Mixed: to the GPU
    return {name: ", ".join(sorted(each)) for name, each in devices.items()}


def dali_regions() -> str:
    """Return the devices of the operators' regions."""
    if '"rois"' not in read("backends/dali/image_schema.cc"):
        return NO
    refused = "rois go with the cpu operator only" in read("backends/dali/images_operator.cc")
    return CPU if refused else BOTH


def images() -> str:
    """Return the section of what an image may be."""
    header = read("csrc/include/endcap/c_api.h")
    formats = one_match(r"typedef enum endcap_pixel_format {(.*?)}", header)
    in_c_api = set(re.findall(r"ENDCAP_(\w+) =", formats))
    (triton,) = (f"`{tensor.name}`" for tensor in preprocess_contract({}).inputs)
    inputs = {
        name: f"`{operator}`"
        for operator in ("preprocess", "resize_normalize")
        for name in re.findall(r'InputDox\(0, "(\w+)"', read(f"backends/dali/{operator}.cc"))
    }
    rows = [
        ["encoded file", "yes", triton, triton, inputs["encoded"], yes("ENCODED" in in_c_api)],
        [
            f"pixels, uint8: {check_pixel_formats()}",
            "yes",
            NO,
            NO,
            inputs["images"],
            yes({"RGB", "BGR", "GRAY"} <= in_c_api),
        ],
        ["YUV: NV12, planar", "yes", Y4M, Y4M, Y4M, Y4M],
        ["path, Pillow image, DLPack", "yes", NO, NO, NO, NO],
    ]
    return "\n\n".join(
        [
            "## Images",
            table(["", *FRONTS], rows),
            f"Planar YUV may be {check_subsamplings()}. The matrix is one of "
            f"{', '.join(yuv._MATRICES)}, the range {' or '.join(yuv._RANGES)}.",
        ]
    )


def yes(supported: bool) -> str:
    """Return a cell."""
    return "yes" if supported else NO


def check_pixel_formats() -> str:
    """Name the formats of pixels; raises for one that the core does not take."""
    pixels = np.zeros((4, 4, 3), np.uint8)
    for pixel_format in ("rgb", "bgr"):
        endcap.preprocess(pixels, pixel_format=pixel_format, threads=1)
    endcap.preprocess(pixels[..., 0], pixel_format="gray", threads=1)
    return "RGB, BGR, gray"


SUBSAMPLINGS = (("4:2:0", 2, 2), ("4:2:2", 1, 2), ("4:4:0", 2, 1), ("4:4:4", 1, 1))


def check_subsamplings() -> str:
    """Name the subsamplings of planar YUV; raises for one that the core does not take."""
    for _, rows, columns in SUBSAMPLINGS:
        chroma = np.zeros((8 // rows, 8 // columns), np.uint8)
        frame = endcap.planar_yuv(np.zeros((8, 8), np.uint8), chroma, chroma)
        endcap.preprocess(frame, size=8, threads=1)
    return ", ".join(name for name, _, _ in SUBSAMPLINGS)


def files() -> str:
    """Return the section of encoded formats: what decoding a small file of each kind gives."""
    rows = [
        [name, decoded(data, "jpeg,png,webp,bmp,gif,y4m"), decoded(data, None)]
        for name, data in sample_files()
    ]
    return "\n\n".join(
        [
            "## Encoded formats",
            "For all interfaces alike. `formats` chooses those that are accepted; the last column "
            "is its default. A file that is not decoded has its own status and does not fail the "
            "other images of its batch. [Image formats](formats.md) has the details.",
            table(["file", "decoded", "by default"], rows),
        ]
    )


def decoded(data: bytes, formats: str | None) -> str:
    """Return whether a file is decoded, and the name of its error otherwise."""
    try:
        endcap.preprocess(data, size=8, formats=formats, threads=1)
    except endcap.EndcapError as error:
        return f"no, `{type(error).__name__}`"
    return "yes"


def sample_files() -> Iterable[tuple[str, bytes]]:
    """Yield a small file of each kind."""
    color = jpegs.photo(32, 32)
    good = jpegs.encode(color)
    yield "JPEG, baseline", good
    yield "JPEG, progressive", jpegs.encode(color, progressive=True)
    yield "JPEG, gray", by_pillow("L", "JPEG")
    yield "JPEG, CMYK", by_pillow("CMYK", "JPEG")
    small = np.zeros((8, 8), np.uint8)
    yield "Y4M: a frame of YUV", endcap.planar_yuv(small, small, small).to_y4m()
    yield "JPEG, 12 bits", jpegs.with_precision(good, 12)
    yield "JPEG, lossless", jpegs.with_frame_marker(good, 0xC3)
    yield "JPEG, hierarchical", jpegs.with_frame_marker(good, 0xC5)
    yield "JPEG, arithmetic coding", jpegs.with_frame_marker(good, 0xC9)
    for name, kind in (("PNG", "PNG"), ("WebP", "WEBP"), ("BMP", "BMP"), ("GIF", "GIF")):
        yield name, by_pillow("RGB", kind)
    yield "TIFF", by_pillow("RGB", "TIFF")


def by_pillow(mode: str, kind: str) -> bytes:
    """Return a file that Pillow writes."""
    out = io.BytesIO()
    Image.new(mode, (32, 32)).save(out, kind)
    return out.getvalue()


def tensors() -> str:
    """Return the section of the tensor that preprocess makes."""
    wanted = (
        "dtype",
        "layout",
        "color",
        "fit",
        "interpolation",
        "quantize",
        "jpeg_decoder",
    )
    rows = {row.name: row for row in endcap.Preprocessor(threads=1).describe()}
    return "\n\n".join(
        [
            "## Tensors",
            "On CPU and GPU alike, except `jpeg_decoder`, which chooses between them. "
            "[Parameters](parameters.md#preprocess) has the meanings.",
            table(
                ["parameter", "values"],
                ([f"`{name}`", rows[name].allowed.removeprefix("one of ")] for name in wanted),
            ),
        ]
    )


def heads() -> str:
    """Return the section of the head families."""
    (row,) = (row for row in endcap.Postprocessor(threads=1).describe() if row.name == "head")
    check_layouts()
    rotated = next(r for r in endcap.Postprocessor(threads=1).describe() if r.name == "rotated_nms")
    grid = read("csrc/box_decode/anchors.h")
    levels, sizes = (
        one_match(rf"k{name} = (\d+);", grid) for name in ("MaxGridLevels", "MaxGridSizes")
    )
    return "\n\n".join(
        [
            "## Heads",
            "Every family is read on the CPU and on a GPU, from float32 or float16, by every "
            "interface that has postprocess. [Heads](heads.md) has shapes and parameters.",
            table(
                ["family", "suppression", "outputs of its own"],
                (
                    [f"`{name}`", suppression(name, rotated.allowed), extras(name)]
                    for name in row.allowed.removeprefix("one of ").split(", ")
                ),
            ),
            f"Only the CPU reads an `anchor_grid` with more than {levels} levels or {sizes} sizes.",
        ]
    )


def suppression(family: str, methods: str) -> str:
    """How boxes of a family are suppressed."""
    parameters = HEAD_FAMILIES[family].parameters
    if "rotated_nms" in parameters:
        return f"`nms_rotated`: {methods.removeprefix('one of ')}"
    return "`nms`" if "iou_threshold" in parameters else NO


COMMON_OUTPUTS = (
    "status",
    "num_detections",
    "detection_boxes",
    "detection_scores",
    "detection_classes",
    "detection_indices",
)


def extras(family: str) -> str:
    """Return the outputs that other families lack."""
    outputs = [tensor.name for tensor in postprocess_contract({"head": family}).outputs]
    names = [f"`{name}`" for name in outputs if name not in COMMON_OUTPUTS]
    return ", ".join(names) or NO


def check_layouts() -> None:
    """Stop where a head layout lacks its kernels: the page says that none does."""
    families = read("csrc/box_decode/families.h")
    layouts = one_match(r"enum class HeadLayout : int32_t {(.*?)};", families)
    kernels = read("csrc/box_decode/cuda/filter.cu")
    missing = [
        name
        for name in re.findall(r"^\s*(k\w+)", layouts, re.M)
        if f"HeadLayout::{name}:" not in kernels
    ]
    if missing:
        raise SystemExit(f"no kernels for {missing}: mend the sentence about heads on a GPU")


def one_match(pattern: str, text: str) -> str:
    """Return the only group of the pattern's first match."""
    match = re.search(pattern, text, re.DOTALL)
    if match is None:
        raise SystemExit(f"no match of {pattern}: the source that this script reads has changed")
    return match[1]


def read(path: str) -> str:
    """Return the text of a source file."""
    return (ROOT / path).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
