"""Models with a DALI pipeline, the compiled ones that they are compared with, and DALI itself."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support.damage import copy_model
from tests.triton.model_folders import batching, tensor, write_preprocess
from tests.triton.served_models import PREPROCESS_TEXT

SHIPPED = ("detect", "preprocess", "detector", "postprocess", "preprocess_dali")


def build_operators() -> Path:
    """Builds endcap's operators into the cache where they are not there yet; skips without DALI."""
    # In a process of its own: DALI stays out of this one.
    code = "import endcap.dali; print(endcap.dali.build().path)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "DALI is not installed" in done.stderr:
        pytest.skip("DALI is not installed")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def write_all(repository: Path) -> None:
    """The shipped models, `detect_dali`, and pairs: `pre_x` compiled, `dali_x` by a pipeline."""
    for model in SHIPPED:
        copy_model(model, repository)
    write_ensemble(repository, "detect_dali", preprocess="preprocess_dali")
    write_uint8_ensemble(repository)
    write = partial(write_pair, repository)
    write("many", max_batch_size=32, more=batching(100_000))
    write("blank", max_batch_size=8, on_error="blank")
    write("single")
    write("bytes", max_batch_size=4, inputs=[tensor("encoded", "TYPE_UINT8", [-1])])
    write("uint8", max_batch_size=8, dtype="uint8", layout="nhwc", color="gray")
    write("half", max_batch_size=8, dtype="float16", mean="0.1,0.2,0.3", scale=0.1)
    write("classes", max_batch_size=8, preset="torchvision", size=64)
    write("some", max_batch_size=8, outputs=[tensor("geometry", "TYPE_FP32", [8])])


def write_ensemble(repository: Path, name: str, *, preprocess: str) -> Path:
    """The shipped `detect` with another first step; returns its config.pbtxt."""
    config = copy_model("detect", repository, name=name) / "config.pbtxt"
    step = 'model_name: "preprocess"'
    assert config.read_text().count(step) == 1
    config.write_text(config.read_text().replace(step, f'model_name: "{preprocess}"'))
    return config


def write_uint8_ensemble(repository: Path) -> None:
    """`bytes_detect`: the ensemble for NVIDIA's backend, its first step in the Python backend."""
    first = copy_model("preprocess_dali", repository, name="bytes_preprocess") / "config.pbtxt"
    ensemble = write_ensemble(repository, "bytes_detect", preprocess="bytes_preprocess")
    for config in (first, ensemble):
        before, after = config.read_text().split("output [", 1)
        before = before.replace("TYPE_STRING", "TYPE_UINT8").replace("dims: [ 1 ]", "dims: [ -1 ]")
        assert "TYPE_UINT8" in before
        assert "dims: [ -1 ]" in before
        config.write_text(f"{before}output [{after}")


def write_pair(
    repository: Path,
    name: str,
    *,
    max_batch_size: int = 0,
    more: str = "",
    inputs: list[str] | None = None,
    outputs: list[str] | None = None,
    **parameters: object,
) -> None:
    for variant in ("compiled", "dali"):
        write_preprocess(
            repository,
            f"{'dali' if variant == 'dali' else 'pre'}_{name}",
            variant=variant,
            parameters={**PREPROCESS_TEXT, **parameters},
            max_batch_size=max_batch_size,
            inputs=inputs,
            outputs=outputs,
            more=more,
        )
