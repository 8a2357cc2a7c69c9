"""endcap init, networks that never end, take all memory or crash, and an interrupt meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from tests.support import family_networks as families
from tests.support.init_runs import init
from tests.support.onnx_heads import network

ENDS_WITHIN_S = 5.0


def write_beside(path: Path, nodes: str, **constants: npt.ArrayLike) -> Path:
    """A detector to whose head `nothing`, a scalar that the nodes make, is added."""
    model = onnx.load(str(families.yolov8().write(path)))
    output = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["head_only" if each == output else each for each in node.output]
    signature = f"(float[n] images, float[n] head_only) => (float[n] {output})"
    more = network(signature, f"{nodes} {output} = Add(head_only, nothing)", **constants).graph
    model.graph.initializer.extend(more.initializer)
    model.graph.node.extend(more.node)
    path.write_bytes(model.SerializeToString())
    return path


def write_endless(path: Path) -> Path:
    """A detector next to which a loop of 2^40 steps runs."""
    body = "body (int64 step, bool go_in, float sum_in) => (bool go_out, float sum_out)"
    steps = "{ go_out = Identity(go_in) sum_out = Add(sum_in, sum_in) }"
    return write_beside(
        path,
        f"nothing = Loop<body = {body} {steps}>(steps, go, zero)",
        steps=np.array(2**40),
        go=np.array(True),
        zero=np.float32(0),
    )


def write_greedy(path: Path, elements: int) -> Path:
    """A detector next to which a tensor of this number of floats is summed."""
    return write_beside(
        path,
        # Its size depends on the image, so that no optimiser makes it.
        "image_shape = Shape<start=0, end=1>(images) large_shape = Mul(image_shape, shape)"
        "large = ConstantOfShape(large_shape) nothing = ReduceSum<keepdims=0>(large)",
        shape=np.array([elements]),
    )


def test_a_network_that_never_ends_is_ended(tmp_path: Path, temporary: Path) -> None:
    model = write_endless(tmp_path / "model.onnx")
    start = time.monotonic()
    done = init(model, "--trial-timeout", "4")
    assert time.monotonic() - start < 4 + ENDS_WITHIN_S
    assert done.exit_code == 2
    assert "is not done with its trial run after 4 seconds" in done.stderr
    assert "--trial-timeout" in done.stderr
    assert not (tmp_path / "models").exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("elements", [2**28, 2**45])
def test_a_network_that_takes_more_memory_than_allowed_is_refused(
    tmp_path: Path, temporary: Path, elements: int
) -> None:
    model = write_greedy(tmp_path / "model.onnx", elements)
    done = init(model, "--trial-memory", "0.5")
    assert done.exit_code == 2, done.output
    assert "takes more than 0.5 GiB of memory in its trial run" in done.stderr
    assert "--trial-memory" in done.stderr
    assert list(temporary.iterdir()) == []


def test_the_same_network_runs_with_more_memory(tmp_path: Path) -> None:
    model = write_greedy(tmp_path / "model.onnx", 2**28)
    done = init(model, "--trial-memory", "4")
    assert done.exit_code == 0, done.stderr


def test_a_crash_is_an_error_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends as one that a defect of ONNX Runtime ends."""
    package = tmp_path / "broken" / "onnxruntime"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.syspath_prepend(str(package.parent))
    done = init(families.yolov8().write(tmp_path / "model.onnx"))
    assert done.exit_code == 2
    assert "crashed ONNX Runtime in its trial run (SIGSEGV" in done.stderr


@pytest.mark.parametrize(
    ("number", "group"), [(signal.SIGINT, True), (signal.SIGTERM, False)], ids=["terminal", "kill"]
)
def test_a_signal_ends_it_at_once_and_nothing_is_left(
    tmp_path: Path, temporary: Path, number: signal.Signals, group: bool
) -> None:
    model = write_endless(tmp_path / "model.onnx")
    process = start_init(model, tmp_path / "models")
    worker = wait_for_worker(process)
    start = time.monotonic()
    (os.killpg if group else os.kill)(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < ENDS_WITHIN_S
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not Path(f"/proc/{worker}").exists()
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "temporary"]


def test_the_worker_ends_with_a_killed_command(tmp_path: Path, temporary: Path) -> None:
    process = start_init(write_endless(tmp_path / "model.onnx"), tmp_path / "models")
    worker = wait_for_worker(process)
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + ENDS_WITHIN_S
    while is_running(worker):
        assert time.monotonic() < deadline, "the worker runs on"
        time.sleep(0.05)


def start_init(model: Path, output: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "endcap", "init", str(model), "-o", str(output)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for_worker(process: subprocess.Popen[str]) -> int:
    """Returns the process that runs the network, once it has taken a second of processor time."""
    deadline = time.monotonic() + 60
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while True:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the network was never run"
        for child in children.read_text().split():
            ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]
            if sum(map(int, ticks)) > 2 * os.sysconf("SC_CLK_TCK"):
                return int(child)
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
