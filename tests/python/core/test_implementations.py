"""The list of implementations; forcing one by call and by environment; proof that it ran."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import endcap
from endcap import _core
from tests.support import jpegs
from tests.support.sample_heads import seg_outputs

STAGES = ["decode", "preprocess", "box_decode", "nms", "masks"]


def run_every_stage() -> tuple[np.ndarray, ...]:
    result = endcap.preprocess(jpegs.photo_jpeg(48, 64), size=(32, 32))
    head = seg_outputs(1, anchors=60, num_classes=3)
    detections = endcap.Postprocessor("yolov8_seg", num_classes=3, mask_coefficients=8)(
        head, result.geometry
    )
    return result.images, result.geometry, detections.boxes, detections[0].masks


def kinds_that_ran() -> dict[str, str]:
    return {i.stage: i.kind for i in endcap.implementations() if i.ran_last}


def test_every_stage_has_its_scalar_definition() -> None:
    listed = endcap.implementations()
    names = [i.name for i in listed]
    assert len(set(names)) == len(names)
    for i in listed:
        assert i.name == f"{i.stage}_{i.kind}"
        assert i.stage in STAGES
        assert i.kind in ("scalar", "simd", "cuda")
        assert bool(i.reason) != i.available
    assert [i.stage for i in listed if i.kind == "scalar" and i.available] == STAGES


def test_each_implementation_can_be_forced_and_then_runs(unforced: None) -> None:
    expected = run_every_stage()
    forceable = [
        kind
        for kind in ("scalar", "simd")
        if all((s, kind) in {(i.stage, i.kind) for i in available()} for s in STAGES)
    ]
    assert "scalar" in forceable
    for kind in forceable:
        endcap.force_implementation(kind)
        actual = run_every_stage()
        assert kinds_that_ran() == dict.fromkeys(STAGES, kind)
        for one, other in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def available() -> list[endcap.Implementation]:
    return [i for i in endcap.implementations() if i.available]


def test_an_implementation_that_the_cpu_lacks_is_an_error_and_no_fallback(unforced: None) -> None:
    for kind in {"simd", "cuda"} - {i.kind for i in available() if i.kind != "cuda"}:
        endcap.force_implementation(kind)
        with pytest.raises(endcap.UnsupportedError, match=kind):
            endcap.decode(jpegs.photo_jpeg(8, 8))
        with pytest.raises(endcap.UnsupportedError, match=kind):
            endcap.nms(np.zeros((1, 4), np.float32), np.zeros(1, np.float32), 0.5)
        endcap.force_implementation("auto")
        assert endcap.decode(jpegs.photo_jpeg(8, 8)).shape == (8, 8, 3)


def test_a_forced_gpu_implementation_names_the_device_to_ask_for(unforced: None) -> None:
    endcap.force_implementation("cuda")
    with pytest.raises(endcap.UnsupportedError, match='device="cuda"'):
        endcap.preprocess(jpegs.photo_jpeg(8, 8))


def test_the_gpu_implementations_are_listed_with_one_reason_against_them_or_none() -> None:
    rows = [i for i in endcap.implementations() if i.kind == "cuda"]
    assert [i.stage for i in rows] == STAGES[:-1]
    assert len({i.reason for i in rows}) == 1


def test_an_unknown_implementation_is_refused(unforced: None) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="abacus"):
        endcap.force_implementation("abacus")
    assert endcap.decode(jpegs.photo_jpeg(8, 8)).shape == (8, 8, 3)


def run_with_environment(value: str) -> str:
    """What a fresh process prints for: stage=kind of what ran, or the error's type and text."""
    program = (
        "import sys, endcap\n"
        "try:\n"
        "    endcap.decode(sys.stdin.buffer.read())\n"
        "except endcap.EndcapError as error:\n"
        "    print(type(error).__name__, error)\n"
        "print(*(f'{i.stage}={i.kind}' for i in endcap.implementations() if i.ran_last))\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        input=jpegs.photo_jpeg(8, 8),
        env={**os.environ, "ENDCAP_FORCE_IMPLEMENTATION": value},
        capture_output=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr.decode()
    return child.stdout.decode().strip()


def test_the_environment_forces_an_implementation() -> None:
    assert run_with_environment("scalar") == "decode=scalar"
    assert run_with_environment("").startswith("decode=")


def test_an_unknown_implementation_in_the_environment_is_an_error() -> None:
    printed = run_with_environment("abacus")
    assert printed.startswith("InvalidArgumentError")
    assert "ENDCAP_FORCE_IMPLEMENTATION" in printed
    assert "abacus" in printed


def test_nothing_has_run_in_a_fresh_process() -> None:
    program = "import endcap; print([i.name for i in endcap.implementations() if i.ran_last])"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert child.stdout.strip() == b"[]"


TARGETS = _core.simd_targets()


@pytest.mark.skipif(not TARGETS, reason="this CPU has no SIMD target")
@pytest.mark.parametrize("value", ["abacus", *TARGETS])
def test_the_environment_names_the_target(value: str) -> None:
    program = (
        "import sys, endcap\n"
        "from endcap import _core\n"
        "try:\n"
        "    endcap.decode(sys.stdin.buffer.read())\n"
        "    print(_core.simd_target())\n"
        "except endcap.InvalidArgumentError as error:\n"
        "    print(error)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        input=jpegs.photo_jpeg(8, 8),
        env={**os.environ, "ENDCAP_SIMD_TARGET": value, "ENDCAP_FORCE_IMPLEMENTATION": "simd"},
        capture_output=True,
        check=True,
    )
    printed = child.stdout.decode().strip()
    if value in TARGETS:
        assert printed == value
    else:
        assert "ENDCAP_SIMD_TARGET is 'abacus'" in printed
        assert TARGETS[0] in printed
