"""fn.endcap.preprocess in real pipelines: bit for bit what endcap.preprocess returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from nvidia.dali import fn, types

import endcap
from tests.dali.dali_runs import as_bytes, build, feed, run, run_files, to_samples
from tests.support import jpegs

SIDES = [(96, 128), (301, 200), (64, 64), (333, 517), (480, 90), (75, 130)]
FILES = [jpegs.photo_jpeg(*side, seed=i) for i, side in enumerate(SIDES)]
ENCODED = [as_bytes(file) for file in FILES]
DTYPES = {
    "float32": types.FLOAT,
    "float16": types.FLOAT16,
    "uint8": types.UINT8,
    "int8": types.INT8,
}
ROIS = [
    np.array([[20, 30, 90, 70], [0, 0, 50, 50], [10.5, 3.2, 11, 4]], np.float32),
    np.array([[5, 5, 20, 40]], np.float32),
    np.zeros((0, 4), np.float32),
    np.array([[1, 2, 30, 40], [-5, -5, 400, 400]], np.float32),
]


def expect_equal(outputs: list[Any], wanted: endcap.PreprocessResult) -> None:
    """DALI's samples; each sample is a separate request, so that its place in one is 0."""
    images, geometry, status = outputs
    for i, image in enumerate(wanted.images):
        np.testing.assert_array_equal(images[i], image)
        assert images[i].dtype == wanted.images.dtype
        np.testing.assert_array_equal(geometry[i], [*wanted.geometry[i][:7], 0])
        assert status[i] == [wanted.status[i]]


@pytest.mark.parametrize(
    "fields",
    [
        {"size": (48, 64), "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
        {"size": 64, "mean": 103.53, "scale": 0.017},
        {"size": 64, "max_pixels": 1_000_000, "max_bytes": 2**32},
        {"preset": "torchvision", "size": 64, "color": "bgr", "antialias": False},
    ],
    ids=["lists", "numbers of few digits", "beyond 32 bits", "preset"],
)
def test_arguments_of_every_type(fields: dict[str, Any]) -> None:
    expect_equal(run_files(FILES, **fields), endcap.preprocess(FILES, **fields))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_every_dtype_and_layout(dtype: str, layout: str) -> None:
    fields: dict[str, Any] = {"size": (48, 64), "layout": layout}
    outputs = run_files(FILES, dtype=DTYPES[dtype], **fields)
    expect_equal(outputs, endcap.preprocess(FILES, dtype=dtype, **fields))


@pytest.mark.parametrize(("layout", "name"), [("nchw", "CHW"), ("nhwc", "HWC")])
def test_images_carry_their_layout(layout: str, name: str) -> None:
    def run_layout(**fields: Any) -> Any:
        graph = lambda encoded: fn.endcap.preprocess(encoded, layout=layout, **fields)  # noqa: E731
        return feed(build(graph, ["encoded"], 1), {"encoded": ENCODED[:1]})

    for size in (64, 3, 1):  # also where the side is a number of channels
        images, geometry, status = run_layout(size=size)
        assert images.layout() == name
        assert images.shape()[0] == ((3, size, size) if name == "CHW" else (size, size, 3))
        assert geometry.layout() == status.layout() == ""
    assert run_layout(size=8, rois=[0, 0, 9, 9])[0].layout() == f"N{name}"


def test_what_dali_knows_of_a_source_stays_with_the_sample(tmp_path: Any) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(FILES[0])

    def graph() -> Any:
        encoded, _ = fn.readers.file(files=[str(path)])
        images, _, _ = fn.endcap.preprocess(encoded, size=32)
        return fn.get_property(images, key="source_info")

    [[told]] = [to_samples(output) for output in feed(build(graph, [], 1), {})]
    assert bytes(told) == str(path).encode()


def test_batches_of_other_sizes_and_bad_files() -> None:
    """A bad file has a status and zeros, and the next batch is not affected."""
    pipeline = build(lambda encoded: fn.endcap.preprocess(encoded, size=64), ["encoded"], 6)
    for files in (FILES[:1], [b"", b"x"], FILES, [FILES[0], b"no image", FILES[1]], FILES[:3]):
        outputs = feed(pipeline, {"encoded": [as_bytes(file) for file in files]})
        wanted = endcap.preprocess(files, size=64, on_error="blank")
        expect_equal([to_samples(output) for output in outputs], wanted)
    with pytest.raises(RuntimeError, match="corrupt_image: image index 1 of 3: "):
        run_files([FILES[0], b"no image", FILES[1]], size=64, on_error="error")


# --- sizes of each sample -------------------------------------------------------------------------


def run_sized(sizes: list[Any], **parameters: Any) -> list[Any]:
    return run(
        lambda encoded, size: fn.endcap.preprocess(encoded, size=size, **parameters),
        {"encoded": ENCODED[: len(sizes)], "size": sizes},
    )


def test_a_size_of_its_own_for_each_sample() -> None:
    sizes = [(64, 96), (96, 64), (33, 33), (64, 96)]
    given = [np.array(size, np.int32) for size in sizes]
    outputs = run_sized(given, mean=[0.4, 0.5, 0.6])
    for i, size in enumerate(sizes):
        alone = endcap.preprocess(FILES[i], size=size, mean=[0.4, 0.5, 0.6])
        expect_equal([[samples[i]] for samples in outputs], alone)


def test_one_number_for_both_sides_and_dalis_own_arithmetic() -> None:
    for shape, dtype in (((), np.int64), ((1,), np.int32)):
        images, _, _ = run_sized([np.full(shape, side, dtype) for side in (40, 50)])
        assert [image.shape for image in images] == [(3, 40, 40), (3, 50, 50)]

    def graph(encoded: Any) -> Any:
        shape = fn.peek_image_shape(encoded)
        return fn.endcap.preprocess(encoded, size=fn.cast(shape[:2] // 2, dtype=types.INT32))

    images = to_samples(feed(build(graph, ["encoded"], 2), {"encoded": ENCODED[:2]})[0])
    assert [i.shape[1:] for i in images] == [(48, 64), (150, 100)]


@pytest.mark.parametrize(
    ("size", "came"),
    [
        (np.array([0, 5], np.int32), "0,5"),
        (np.array(2**32 + 64, np.int64), "4294967360,4294967360"),
        (np.array([5, 5, 5], np.int32), r"int32 \[3\]"),
        (np.array([5.0, 5.0], np.float32), r"float \[2\]"),
    ],
    ids=str,
)
def test_a_size_that_cannot_be_used(size: npt.NDArray[Any], came: str) -> None:
    with pytest.raises(ValueError, match=f"size of sample 0 is {came}: give"):
        run_sized([size, size])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fit": "crop"}, "fit.*crop.*letterbox"),
        ({"dtype": types.FLOAT64}, "dtype.*types.FLOAT"),
        ({"size": 2**32 + 64}, r"size is .*4294967360"),
        ({"size": [64, 2**32 + 64]}, r"size is .*4294967360"),
        ({"rois": [1.0, 2, 3]}, r"rois has \d numbers: give x1"),
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be_used(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        run_files(FILES[:1], **parameters)
    assert "image index" not in str(raised.value)


@pytest.mark.parametrize("sample", [np.zeros((4, 4), np.uint8), np.zeros(100, np.float32)])
def test_input_that_is_not_a_file(sample: npt.NDArray[Any]) -> None:
    with pytest.raises(ValueError, match=r"encoded is .*: give the bytes of a file"):
        run(lambda encoded: fn.endcap.preprocess(encoded), {"encoded": [sample]})


# --- regions --------------------------------------------------------------------------------------


def run_rois(files: list[bytes], rois: list[Any], **parameters: Any) -> list[Any]:
    return run(
        lambda encoded, rois: fn.endcap.preprocess(encoded, rois=rois, **parameters),
        {"encoded": [as_bytes(f) for f in files], "rois": rois},
    )


def test_regions_of_each_sample_or_the_same_for_all() -> None:
    images, geometry, status = run_rois(FILES[:4], ROIS, size=(40, 48))
    for i, rois in enumerate(ROIS):
        assert images[i].shape == (len(rois), 3, 40, 48)
        assert geometry[i].shape == (len(rois), 8)
        assert status[i].shape == (len(rois),)
        if len(rois):
            wanted = endcap.preprocess(FILES[i], rois=rois, size=(40, 48))
            np.testing.assert_array_equal(images[i], wanted.images)
            np.testing.assert_array_equal(geometry[i], wanted.geometry)
            np.testing.assert_array_equal(status[i], wanted.status)
    flat = [20.0, 30, 60, 70, 0, 0, 50, 50]
    for file, image in zip(FILES, run_files(FILES, rois=flat, size=32)[0], strict=True):
        wanted = endcap.preprocess(file, rois=np.reshape(flat, (2, 4)), size=32)
        np.testing.assert_array_equal(image, wanted.images)


def test_bad_regions_and_files_have_a_status_or_end_the_pipeline() -> None:
    rois = [*ROIS[:1], np.array([[900, 900, 950, 950], [0, 0, 9, 9]], np.float32), *ROIS[2:]]
    images, _, status = run_rois([*FILES[:2], b"", b"no"], rois, size=16)
    assert [list(s) for s in status] == [[0, 0, 0], [4, 0], [], [1, 1]]
    assert not images[1][0].any()
    assert images[1][1].any()
    assert not images[3].any()
    with pytest.raises(ValueError, match=r"invalid_argument: image index 1 of 4: .+"):
        run_rois(FILES[:4], rois, size=16, on_error="error")


@pytest.mark.parametrize(
    ("rois", "message"),
    [
        (np.zeros(4, np.float32), r"rois of sample 0 is float \[4\]: give"),
        (np.zeros((1, 4), np.float64), r"rois of sample 0 is double \[1, 4\]: give"),
        (np.zeros((3, 4), np.float32), r"image index 0 of 1: .*3 rois; max_rois allows 2"),
    ],
)
def test_regions_that_cannot_be_used(rois: npt.NDArray[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_rois(FILES[:1], [rois], max_rois=2, size=8)
