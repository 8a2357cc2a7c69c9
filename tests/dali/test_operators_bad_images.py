"""Bad files between good ones: their status, or the end of the pipeline with a message."""

from __future__ import annotations

import numpy as np
import pytest
from nvidia.dali import fn

import endcap
from tests.dali.dali_runs import as_bytes, build, feed, run_files, samples_of
from tests.support import jpegs

GOOD = [jpegs.photo_jpeg(90 + 20 * i, 160 - 15 * i, seed=i) for i in range(3)]


def test_a_bad_file_has_a_status_and_zeros() -> None:
    files = [GOOD[0], b"no image", GOOD[1]]
    images, geometry, status = run_files(files, size=32)
    alone = endcap.preprocess(files, size=32, on_error="blank")
    assert [int(s[0]) for s in status] == [0, 1, 0]
    np.testing.assert_array_equal(np.stack(images), alone.images)
    np.testing.assert_array_equal(np.stack(geometry)[:, :7], alone.geometry[:, :7])


def test_on_error_error_ends_with_the_sample_and_its_error_message() -> None:
    with pytest.raises(RuntimeError, match="corrupt_image: image index 1 of 3: "):
        run_files([GOOD[0], b"no image", GOOD[1]], size=64, on_error="error")


def test_a_pipeline_goes_on_after_bad_batches() -> None:
    pipeline = build(lambda encoded: fn.endcap.preprocess(encoded, size=64), ["encoded"], 3)
    wanted = endcap.preprocess(GOOD, size=64).images
    for files in ([b"", b"x", b""], GOOD, [bytes(1000)] * 3, GOOD):
        images, _, status = feed(pipeline, {"encoded": [as_bytes(f) for f in files]})
        if files is GOOD:
            np.testing.assert_array_equal(np.stack(samples_of(images)), wanted)
        else:
            assert all(int(s[0]) == 1 for s in samples_of(status))
