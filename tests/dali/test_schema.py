"""The operators' arguments are the core's parameters, in type and in words."""

from __future__ import annotations

import pydoc
from typing import Any

import pytest
from nvidia.dali import backend, fn, types

import endcap
from tests.dali.dali_runs import new_pipeline

PREPROCESS = endcap.Preprocessor().describe()
POSTPROCESS = endcap.Postprocessor().describe()

# Parameters that an operator has no argument for; none cuts images into tiles.
TILES = {"tile", "tile_overlap", "tile_full"}
LEFT_OUT = {
    "endcap__Preprocess": TILES,
    # The images come decoded.
    "endcap__ResizeNormalize": {
        *TILES,
        *("exif", "decode", "jpeg_decoder"),
        *("max_pixels", "max_side", "max_bytes", "max_scans", "max_coefficient_bytes"),
        *("max_decoded_bytes", "formats", "base64", "alpha"),
        *("truncated", "damaged"),
    },
    "endcap__Postprocess": {
        *("merge", "merge_metric", "merge_threshold"),  # DALI has no tiles
        # Of the head semantic, which is refused.
        *("class_map", "class_map_resize", "ignore_label"),
    },
}
# Arguments that are no parameters of the core's table.
EXTRA = {
    "endcap__Preprocess": {"preset", "rois"},
    "endcap__ResizeNormalize": {"preset", "rois", "image_type"},
    "endcap__Postprocess": {"output_status"},
    "endcap__Nms": {"iou_threshold", "max_detections"},
}
TABLES = {
    "endcap__Preprocess": PREPROCESS,
    "endcap__ResizeNormalize": PREPROCESS,
    "endcap__Postprocess": POSTPROCESS,
}
OPERATORS = list(TABLES)
# How the words end of what has another default or other values than in the core.
OTHER_HERE = {
    "on_error": "one of error, blank (blank by default here)",
    "head": f"{POSTPROCESS[0].allowed} (always to be given)",
    "mask_resolution": "one of prototype, input (always to be given with heads of masks)",
}
LISTS = {"size", "input_size", "prototype_size", "classes"}


def get_schema(operator: str) -> Any:
    return backend.GetSchema(operator)


def own_arguments(operator: str) -> set[str]:
    """The arguments that not every operator of DALI has."""
    common = set(get_schema("endcap__Nms").GetArgumentNames()) - EXTRA["endcap__Nms"]
    return set(get_schema(operator).GetArgumentNames()) - common


def type_for(name: str, allowed: str) -> Any:
    if name == "dtype":
        return types.DALIDataType.DATA_TYPE
    if name in LISTS:
        return types.DALIDataType._INT32_VEC
    if allowed == "true or false":
        return types.DALIDataType.BOOL
    if allowed.startswith("a whole number"):
        return types.DALIDataType.INT64
    if allowed.startswith("a number"):
        return types.DALIDataType.FLOAT
    if "numbers" in allowed:
        return types.DALIDataType._FLOAT_VEC
    return types.DALIDataType.STRING


@pytest.mark.parametrize("operator", OPERATORS)
def test_arguments_are_the_parameters(operator: str) -> None:
    parameters = {row.name for row in TABLES[operator]}
    assert own_arguments(operator) == parameters - LEFT_OUT[operator] | EXTRA[operator]
    assert LEFT_OUT[operator] <= parameters
    assert not EXTRA[operator] & parameters
    schema = get_schema(operator)
    of_samples = {n for n in own_arguments(operator) if schema.IsTensorArgument(n)}
    required = {n for n in own_arguments(operator) if not schema.IsArgumentOptional(n)}
    if operator == "endcap__Postprocess":
        assert (of_samples, required) == (set(), {"head"})
    else:
        assert (of_samples, required) == ({"size", "rois"}, set())


@pytest.mark.parametrize("operator", OPERATORS)
def test_types_and_words_are_the_table_s(operator: str) -> None:
    schema = get_schema(operator)
    for row in TABLES[operator]:
        if row.name in LEFT_OUT[operator]:
            continue
        assert schema.GetArgumentType(row.name) == type_for(row.name, row.allowed), row.name
        doc = schema.GetArgumentDox(row.name)
        if row.name in OTHER_HERE:
            assert doc.endswith(OTHER_HERE[row.name])
        else:
            assert doc.startswith(f"{row.meaning}: {row.allowed} ({row.value} by default)")


@pytest.mark.parametrize(
    ("function", "backends"),
    [
        ("preprocess", ("cpu", "mixed")),
        ("resize_normalize", ("cpu", "gpu")),
        ("postprocess", ("cpu", "gpu")),
        ("nms", ("cpu", "gpu")),
    ],
)
def test_help_shows_the_documentation(function: str, backends: tuple[str, ...]) -> None:
    page = pydoc.plain(pydoc.render_doc(getattr(fn.endcap, function)))
    listed = page.split("Supported backends")[1].split("\n\n")[0]
    assert tuple(b for b in ("cpu", "gpu", "mixed") if f"'{b}'" in listed) == backends
    assert "Returns" in page
    name = "endcap__" + "".join(word.title() for word in function.split("_"))
    for argument in own_arguments(name):
        assert f"\n    {argument} : " in page
    if function == "preprocess":
        assert "the filter, with half-pixel centres" in page
        assert "of ``dtype``" in page


def test_outputs_are_counted_before_a_pipeline_runs() -> None:
    counts = {"yolov8": 5, "yolov8_pose": 6, "yolov8_obb": 6, "classification": 3}
    with new_pipeline(1):
        for family, count in counts.items():
            head = fn.external_source(name=family)
            outputs = fn.endcap.postprocess(head, head=family)
            with_status = fn.endcap.postprocess(head, head=family, output_status=True)
            assert (len(outputs), len(with_status)) == (count, count + 1)
