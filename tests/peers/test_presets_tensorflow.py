"""The preset `inception` against TensorFlow, file to tensor."""

from __future__ import annotations

import pytest
from pictures import COLOR, picture
from preset_steps import assert_same_pixels, preset_tensor

tf = pytest.importorskip("tensorflow", reason="the comparison is with TensorFlow")


@pytest.mark.parametrize("name", COLOR)
def test_inception(name: str) -> None:
    # The decoding that libjpeg-turbo does by default; TensorFlow's own default is a faster one.
    decoded = tf.io.decode_jpeg(picture(name), channels=3, dct_method="INTEGER_ACCURATE")
    expected = tf.image.resize(decoded, (299, 299)).numpy() / 127.5 - 1
    assert_same_pixels("inception", preset_tensor("inception", picture(name)), expected)
