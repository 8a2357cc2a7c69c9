"""Readers of COCO's files: annotations, results and run-length encodings."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from endcap.evaluation.annotations import Dataset, load_dataset, load_predictions
from endcap.evaluation.categories import match_categories
from endcap.evaluation.coco import measure
from endcap.masks import decode_rle, encode_rle
from tests.fuzz.mutations import damaged, fuzzed, only_own_errors

ANNOTATIONS = {
    "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "sub/b.jpg"}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 3, "name": "dog"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0},
        {"id": 2, "image_id": 2, "category_id": 3, "bbox": [0.5, 0, 10, 10]},
    ],
}
RESULTS = [{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]
ODD: st.SearchStrategy[Any] = (
    st.sampled_from(
        (None, True, -1, 0, 1, 1.0, 2**63, 2**64, -(2**63), 10**400, 1e308, 1e-320, "", "../x",
         "/etc/passwd", "a\0b", "sub/../../x", "sub/../..", ".", "\ud800", "x" * 5000, [], {}, [[]],
         [1, 2, 3], [1, 2, -3, 4], [1e308] * 4, ["1", "2", "3", "4"], float("nan"), float("inf"))
    )
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
)  # fmt: skip


@st.composite
def changed(draw: st.DrawFn, whole: Any) -> Any:
    """Returns a structure in which some values, keys or rows are others."""
    content = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        holder: Any = content
        while True:
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            if not keys:
                break
            key = draw(st.sampled_from(list(keys)))
            inner = holder[key]
            if isinstance(inner, (dict, list)) and draw(st.integers(0, 3)):
                holder = inner
                continue
            kind = draw(st.sampled_from(("set", "set", "delete", "twice")))
            if kind == "set":
                holder[key] = copy.deepcopy(draw(ODD))
            elif kind == "delete":
                del holder[key]
            elif isinstance(holder, list):
                holder.append(copy.deepcopy(inner))
            break
    return content


def read(annotations: bytes, results: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        images = Path(folder) / "images"
        (images / "sub").mkdir(parents=True)
        for name in ("a.jpg", "sub/b.jpg"):
            (images / name).touch()
        (Path(folder) / "annotations.json").write_bytes(annotations)
        (Path(folder) / "results.json").write_bytes(results)
        with only_own_errors():
            dataset = load_dataset(images, Path(folder) / "annotations.json")
            for path in dataset.images.values():
                assert path.resolve().is_relative_to(images.resolve())
            with only_own_errors():
                predictions = load_predictions(Path(folder) / "results.json", dataset)
                check_measured(dataset, predictions)


def check_measured(dataset: Dataset, predictions: Any) -> None:
    json.dumps(predictions.rows, allow_nan=False)
    with only_own_errors():
        classes = match_categories(dataset.categories, labels=["cat", "dog"])
        accuracy = measure(dataset, predictions, classes.category_ids)
        assert 0 <= (accuracy.figures["map50"] or 0) <= 1


def encoded(content: Any) -> bytes:
    return json.dumps(content).encode("utf-8", "surrogatepass")


@fuzzed
@given(changed(ANNOTATIONS))
def test_annotations_that_hold_anything(content: Any) -> None:
    read(encoded(content), encoded(RESULTS))


@fuzzed
@given(changed(RESULTS))
def test_results_that_hold_anything(content: Any) -> None:
    read(encoded(ANNOTATIONS), encoded(content))


@fuzzed
@given(damaged(encoded(ANNOTATIONS), parts=(b"[", b"{", b"null", b"1e999", b'"\\ud800"')))
@example(b"[" * 100_000)
@example(b"\xff\xfe[\x00")
@example(b"1" * 10_000)
def test_damaged_files(content: bytes) -> None:
    read(content, encoded(RESULTS))
    read(encoded(ANNOTATIONS), content)


SIZES = st.tuples(st.integers(0, 40), st.integers(0, 40))


@fuzzed
@given(st.binary(max_size=60) | st.text(max_size=40), SIZES)
def test_an_rle_of_anything(rle: bytes | str, size: tuple[int, int]) -> None:
    with only_own_errors():
        mask = decode_rle(rle, size)
        assert mask.shape == size


@fuzzed
@given(st.data(), st.integers(1, 12), st.integers(1, 12))
def test_a_damaged_rle(data: st.DataObject, height: int, width: int) -> None:
    bits = data.draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width))
    whole = encode_rle(np.array(bits).reshape(height, width))
    with only_own_errors():
        mask = decode_rle(data.draw(damaged(whole)), (height, width))
        assert mask.shape == (height, width)
