"""Pixels in YUV on a GPU, in host memory and in its own: the CPU's tensors, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.support.cuda_inputs import HOLDERS, ByInterface, on_gpu
from tests.support.yuv_images import SAMPLINGS, Planes, noise

SIZE = (40, 64)


def expect_same(image: endcap.YuvImage, planes: Planes, colors: dict[str, str]) -> None:
    for fields in ({}, {"color": "gray"}, {"color": "bgr", "interpolation": "bicubic"}):
        options: dict[str, Any] = {"size": SIZE, **fields}
        result = endcap.preprocess(image, device="cuda", **options)
        expected = endcap.preprocess(planes.image(**colors), **options)
        np.testing.assert_array_equal(result.images.to_numpy(), expected.images)
        np.testing.assert_array_equal(result.geometry, expected.geometry)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_planes_of_every_sampling(sampling: str) -> None:
    planes = noise(37, 53, sampling)
    colors = {"matrix": "bt709", "range": "full"}
    image = endcap.planar_yuv(*map(on_gpu, (planes.y, planes.u, planes.v)), **colors)
    expect_same(image, planes, colors)


@pytest.mark.parametrize("hold", [lambda plane: plane, *HOLDERS])
def test_nv12_in_one_array_and_in_two(hold: Any) -> None:
    planes = noise(36, 52)
    expect_same(endcap.nv12(hold(planes.nv12)), planes, {})
    expect_same(endcap.nv12((hold(planes.y), hold(planes.uv))), planes, {})
    odd = noise(37, 53)
    expect_same(endcap.nv12((hold(odd.y), hold(odd.uv))), odd, {})


def test_rows_may_lie_apart() -> None:
    planes = noise(36, 52)
    wide = np.zeros((54, 64), np.uint8)  # as decoders pad them
    wide[:, :52] = planes.nv12
    padded = ByInterface(wide, shape=(54, 52), strides=(64, 1))
    expect_same(endcap.nv12(padded), planes, {})


def test_planes_must_lie_together() -> None:
    planes = noise(36, 52)
    with pytest.raises(endcap.InvalidArgumentError, match="CPU memory and in a GPU's"):
        endcap.preprocess(endcap.nv12((planes.y, on_gpu(planes.uv))), size=SIZE, device="cuda")
    with pytest.raises(endcap.InvalidArgumentError, match="uint8"):
        endcap.preprocess(
            endcap.nv12(on_gpu(planes.nv12.astype(np.float32))), size=SIZE, device="cuda"
        )
    with pytest.raises(endcap.InvalidArgumentError, match="lies on cuda:0"):
        endcap.preprocess(endcap.nv12(on_gpu(planes.nv12)), size=SIZE)


def test_a_frame_in_a_y4m_file_is_its_planes() -> None:
    planes = noise(37, 53)
    expected = endcap.preprocess(planes.image(), size=SIZE)
    for file in (planes.image().to_y4m(), endcap.nv12((planes.y, planes.uv)).to_y4m()):
        result = endcap.preprocess(file, size=SIZE, device="cuda")
        np.testing.assert_array_equal(result.images.to_numpy(), expected.images)
