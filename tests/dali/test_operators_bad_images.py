"""Bad files between good ones: their status, or the end of the pipeline with a message."""

from __future__ import annotations

import bad_jpegs
import jpegs
import numpy as np
import pytest
from dali_runs import as_bytes, build, feed, run_files, samples_of
from nvidia.dali import fn

import endcap

BAD = bad_jpegs.bad_files()
GOOD = [jpegs.photo_jpeg(90 + 20 * i, 160 - 15 * i, seed=i) for i in range(3)]


def test_all_failure_classes_in_one_batch_with_good_files() -> None:
    files = [GOOD[0], *(bad.data for bad in BAD), GOOD[1]]
    images, geometry, status = run_files(files, size=32)
    alone = endcap.preprocess(files, size=32, on_error="blank")
    assert [int(s[0]) for s in status] == [0, *(int(bad.status) for bad in BAD), 0]
    np.testing.assert_array_equal(np.stack(images), alone.images)
    assert not any(image.any() for image in images[1:-1])
    np.testing.assert_array_equal(np.stack(geometry)[:, :7], alone.geometry[:, :7])
    assert all(np.isfinite(row).all() for row in geometry)
    assert {int(s[0]) for s in status} == {0, 1, 2, 3}


@pytest.mark.parametrize("bad", [BAD[0], BAD[9], BAD[11], BAD[17]], ids=str)
def test_on_error_error_ends_with_the_sample_and_its_error_message(bad: bad_jpegs.BadFile) -> None:
    with pytest.raises(RuntimeError) as raised:
        run_files([GOOD[0], bad.data, GOOD[1]], size=64, on_error="error")
    with pytest.raises(bad.error) as core:
        endcap.preprocess(bad.data, size=64)
    message = str(core.value).split(": ", 1)[-1]
    assert f"{bad.status.name.lower()}: image index 1 of 3: " in str(raised.value)
    assert message in str(raised.value)


def test_a_pipeline_goes_on_after_bad_batches() -> None:
    pipeline = build(lambda encoded: fn.endcap.preprocess(encoded, size=64), ["encoded"], 3)
    wanted = endcap.preprocess(GOOD, size=64).images
    for files in ([b"", b"x", b""], GOOD, [bytes(1000)] * 3, GOOD):
        images, _, status = feed(pipeline, {"encoded": [as_bytes(f) for f in files]})
        if files is GOOD:
            np.testing.assert_array_equal(np.stack(samples_of(images)), wanted)
        else:
            assert all(int(s[0]) == 1 for s in samples_of(status))
