"""Run lengths in COCO's form: written, read, and refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endcap import InvalidArgumentError
from endcap.masks import decode_rle, encode_rle
from tests.reference import masks as reference


@given(seed=st.integers(0, 2**32 - 1), height=st.integers(1, 70), width=st.integers(1, 70))
def test_as_the_definition(seed: int, height: int, width: int) -> None:
    random = np.random.default_rng(seed)
    mask = random.uniform(size=(height, width)) < random.choice([0, 1, random.uniform()])
    rle = encode_rle(mask)
    assert rle == reference.encode(mask)
    np.testing.assert_array_equal(reference.decode(rle, mask.shape), mask)
    np.testing.assert_array_equal(decode_rle(rle, mask.shape), mask)
    np.testing.assert_array_equal(decode_rle(rle.decode(), mask.shape), mask)
    assert decode_rle(rle, mask.shape).dtype == np.bool_


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, bool])
def test_any_number_but_0_is_inside(dtype: type) -> None:
    mask = np.array([[0, 2, 0], [0.5, 0, 1]]).astype(dtype)
    assert encode_rle(mask) == reference.encode(mask != 0)
    assert encode_rle(np.asfortranarray(mask)[::-1]) == reference.encode(mask[::-1] != 0)


@pytest.mark.parametrize("mask", [np.zeros(4), np.zeros((2, 2, 2)), np.array([["a"]])])
def test_invalid_masks_are_refused(mask: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError, match=r"give \[H, W\]"):
        encode_rle(mask)


@pytest.mark.parametrize(
    ("rle", "message"),
    [
        (b"", "that of 0 pixels, not of 12"),
        (b";", "that of 11 pixels"),
        (b"=", "run length 0 is 13, and 12 of 12 pixels are left"),
        (b"O", "run length 0 is -1"),
        (b"1\x7f", "character code 127 at 1"),
        (b"1 ", "character code 32 at 1"),
        (b"\xff", "character code 255 at 0"),
        (b"1P", "ends within a number"),
        (b"PPPPPPP0", "more than 7 characters"),
        (b"1111J", "run length 4 is -5"),
    ],
)
def test_bytes_that_are_no_rle(rle: bytes, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        decode_rle(rle, (3, 4))


@given(rle=st.binary(max_size=20))
def test_any_bytes_are_a_mask_or_refused(rle: bytes) -> None:
    try:
        mask = decode_rle(rle, (3, 4))
    except InvalidArgumentError:
        return
    np.testing.assert_array_equal(reference.decode(rle, (3, 4)), mask)


@pytest.mark.parametrize("size", [(3,), (3, 4, 5), (3.0, 4), (-1, 4), None, "34"])
def test_invalid_sizes_are_refused(size: object) -> None:
    with pytest.raises(InvalidArgumentError, match="size is"):
        decode_rle(b"<", size)  # type: ignore[arg-type]


def test_rle_of_another_type() -> None:
    with pytest.raises(InvalidArgumentError, match="rle is of type int"):
        decode_rle(12, (3, 4))  # type: ignore[arg-type]
