"""The implementations of the core under DALI, each forced in a process of its own: one result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forced_implementations
import pytest

HERE = Path(__file__).resolve().parent

PROGRAM = """
import hashlib
import os
import sys

sys.path[:0] = {folders!r}

import endcap.dali
import jpegs
import numpy as np
import sample_heads
from dali_runs import as_bytes, run
from nvidia.dali import fn

endcap.dali.load()
os.environ["ENDCAP_FORCE_IMPLEMENTATION"] = {kind!r}  # for the operators' core, not this module's


def graph(encoded, head):
    images, geometry, status = fn.endcap.preprocess(encoded, size=160)
    rows = fn.endcap.postprocess(head, geometry, status, head="yolov8", num_classes=7)
    kept = fn.endcap.nms(fn.transpose(head, perm=[1, 0])[:, :4], head[4], iou_threshold=0.5)
    return images, geometry, status, *rows, kept


files = [jpegs.photo_jpeg(90 + 70 * i, 460 - 55 * i, seed=i) for i in range(6)]
heads = [sample_heads.yolov8_head(i, anchors=900, num_classes=7) for i in range(6)]
digest = hashlib.sha256()
for output in run(graph, {{"encoded": [as_bytes(f) for f in files], "head": heads}}):
    for sample in output:
        digest.update(np.ascontiguousarray(sample).tobytes())
print(digest.hexdigest())
"""


def run_forced(kind: str) -> subprocess.CompletedProcess[str]:
    folders = [str(HERE), str(HERE.parent / "support")]
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(folders=folders, kind=kind)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def digest_of(kind: str) -> str:
    done = run_forced(kind)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def scalar() -> str:
    return digest_of("scalar")


@pytest.mark.parametrize(
    "kind", forced_implementations.common_implementations("decode", "preprocess", "nms")
)
def test_every_implementation_gives_the_numbers_of_the_scalar_one(kind: str, scalar: str) -> None:
    assert len(scalar) == 64
    assert digest_of(kind) == scalar


def test_an_unknown_implementation_is_refused_by_the_operators() -> None:
    done = run_forced("abacus")
    assert done.returncode != 0
    assert "nvidia.dali.fn.endcap." in done.stderr
    assert "ENDCAP_FORCE_IMPLEMENTATION is 'abacus'" in done.stderr
