"""The list of implementations; forcing one by call and by environment; proof that it ran."""

from __future__ import annotations

import os
import re
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


TARGETS = _core.simd_targets()
# Name and value of a variable, and what a fresh process prints.
ENVIRONMENTS = [
    ("ENDCAP_FORCE_IMPLEMENTATION", "scalar", r"^decode=scalar \S*$"),
    ("ENDCAP_FORCE_IMPLEMENTATION", "", "^decode="),
    ("ENDCAP_FORCE_IMPLEMENTATION", "abacus", "^ENDCAP_FORCE_IMPLEMENTATION.*abacus"),
    *(("ENDCAP_SIMD_TARGET", target, f"^decode=simd {target}$") for target in TARGETS),
    *(
        ("ENDCAP_SIMD_TARGET", "abacus", f"^ENDCAP_SIMD_TARGET is 'abacus'.*{t}")
        for t in TARGETS[:1]
    ),
]


@pytest.mark.parametrize(("name", "value", "printed"), ENVIRONMENTS)
def test_the_environment_forces_an_implementation(name: str, value: str, printed: str) -> None:
    program = (
        "import sys, endcap\n"
        "from endcap import _core\n"
        "assert not any(i.ran_last for i in endcap.implementations())\n"
        "try:\n"
        "    endcap.decode(sys.stdin.buffer.read())\n"
        "    ran = [f'{i.stage}={i.kind}' for i in endcap.implementations() if i.ran_last]\n"
        "    print(*ran, _core.simd_target())\n"
        "except endcap.InvalidArgumentError as error:\n"
        "    print(error)\n"
    )
    forced = {"ENDCAP_FORCE_IMPLEMENTATION": "simd"} if "SIMD" in name else {}
    child = subprocess.run(
        [sys.executable, "-c", program],
        input=jpegs.photo_jpeg(8, 8),
        env={**os.environ, **forced, name: value},
        capture_output=True,
        check=True,
    )
    assert re.search(printed, child.stdout.decode().strip())
