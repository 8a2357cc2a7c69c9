"""DALI pipelines on the server next to the compiled backend: the same results, and what is missing.

tests/dali/test_triton_stage.py has the tensors of other parameters, bad files and regions.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

import endcap
from endcap.client import DetectionClient
from tests.support import jpegs
from tests.support.damage import SHIPPED, copy_model
from tests.support.doc_pages import ROOT, blocks
from tests.support.doctor_world import World
from tests.triton.calls import Arrays, all_in_flight, infer, strings
from tests.triton.model_folders import batching, write_preprocess
from tests.triton.running_server import RunningServer, run_server
from tests.triton.served_models import PREPROCESS, PREPROCESS_TEXT

SAMPLES = [path.read_bytes() for path in sorted((SHIPPED / "detect" / "samples").glob("*.jpg"))]
IN_FLIGHT = 32
CORRUPT = 13
PORTS = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
INSTALL = "DALI is not installed; install it with `pip install '"


def build_operators() -> Path:
    """Builds endcap's operators into the cache where they are not there yet; skips without DALI."""
    # In a separate process: DALI stays out of this one.
    code = "import endcap.dali; print(endcap.dali.build().path)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "DALI is not installed" in done.stderr:
        pytest.skip("DALI is not installed")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def server(compiled_server: RunningServer, python_models: None) -> RunningServer:
    """With `detect_dali`, and `bytes_detect`: what NVIDIA's DALI backend is for, by Python."""
    build_operators()
    repository = compiled_server.repository
    copy_model("preprocess_dali", repository)
    for name, first in (("detect_dali", "preprocess_dali"), ("bytes_detect", "bytes_preprocess")):
        config = copy_model("detect", repository, name=name) / "config.pbtxt"
        step = 'model_name: "preprocess"'
        assert config.read_text().count(step) == 1
        config.write_text(config.read_text().replace(step, f'model_name: "{first}"'))
    copy_model("preprocess_dali", repository, name="bytes_preprocess")
    for name in ("bytes_preprocess", "bytes_detect"):
        config = repository / name / "config.pbtxt"
        before, after = config.read_text().split("output [", 1)
        before = before.replace("TYPE_STRING", "TYPE_UINT8").replace("dims: [ 1 ]", "dims: [ -1 ]")
        assert "dims: [ -1 ]" in before
        config.write_text(f"{before}output [{after}")
    many = {"parameters": PREPROCESS_TEXT, "max_batch_size": 32, "more": batching(100_000)}
    write_preprocess(repository, "dali_many", variant="dali", **many)
    compiled_server.load("pre", "detect", "detect_dali", "bytes_detect", "dali_many")
    return compiled_server


def assert_same(one: Arrays, other: Arrays) -> None:
    assert sorted(one) == sorted(other)
    for name, array in other.items():
        assert (one[name].dtype, one[name].shape) == (array.dtype, array.shape)
        assert one[name].tobytes() == array.tobytes(), name


def test_detections_equal_those_of_detect_bit_for_bit(server, client) -> None:
    for batch in (SAMPLES[:1], SAMPLES):
        tensors = {"encoded": strings(batch)}
        compiled, dali = (infer(client, name, tensors) for name in ("detect", "detect_dali"))
        assert compiled["num_detections"].all()
        assert_same(dali, compiled)
    messages = []
    for name in ("detect", "detect_dali"):
        with pytest.raises(InferenceServerException) as error:
            infer(client, name, {"encoded": strings([SAMPLES[0], SAMPLES[1][:2000]])})
        messages.append(error.value.message().replace("'detect_dali'", "'detect'"))
    assert messages[0] == messages[1]
    assert "corrupt_image: image index 1 of 2: " in messages[0]


def test_32_requests_in_flight_with_one_corrupt(server, client) -> None:
    files = [jpegs.photo_jpeg(40 + 13 * i, 300 - 7 * i, seed=i) for i in range(IN_FLIGHT)]
    files[CORRUPT] = files[CORRUPT][: len(files[CORRUPT]) // 2]
    before = server.executions("dali_many")
    responses = all_in_flight(client, "dali_many", [{"encoded": strings([file])} for file in files])
    assert server.executions("dali_many") - before < IN_FLIGHT
    error = responses.pop(CORRUPT)
    assert isinstance(error, InferenceServerException)
    assert error.message().startswith("corrupt_image: ")
    del files[CORRUPT]
    for file, response in zip(files, responses, strict=True):
        assert isinstance(response, dict), response
        alone = endcap.preprocess(file, **PREPROCESS)
        assert response["images"].tobytes() == alone.images.tobytes()
        assert response["geometry"].tobytes() == alone.geometry.tobytes()


def test_the_same_configs(server) -> None:
    compiled, dali = server.config("pre"), server.config("dali_many")
    for field in ("input", "output", "max_batch_size"):
        assert dali[field] == compiled[field]


def test_the_ensemble_for_nvidias_backend_takes_plain_bytes(
    server: RunningServer,
    client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the page's program, by an array that is filled up with zeros, and by endcap's client."""
    (tmp_path / "photo.jpg").write_bytes(SAMPLES[0])
    monkeypatch.chdir(tmp_path)
    (page,) = [block for block in blocks(ROOT / "docs" / "dali_triton.md") if "UINT8" in block.text]
    program = page.text.replace("127.0.0.1:8001", server.grpc)
    exec(compile(program.replace('"detect"', '"bytes_detect"'), "page", "exec"), {})
    expected = infer(client, "detect", {"encoded": strings(SAMPLES[:2])})
    assert capsys.readouterr().out == f"{expected['num_detections'][:1]}\n"

    longest = max(map(len, SAMPLES[:2]))
    rows = [np.frombuffer(file.ljust(longest, b"\0"), np.uint8) for file in SAMPLES[:2]]
    assert_same(infer(client, "bytes_detect", {"encoded": np.stack(rows)}), expected)

    with DetectionClient(f"grpc://{server.grpc}", model="bytes_detect") as detector:
        counts = [len(result.predictions) for result in detector.detect(SAMPLES[:2])]
    assert counts == expected["num_detections"][:, 0].tolist()


def test_configs_for_nvidias_backend_are_read_by_name(tmp_path: Path) -> None:
    """By an option of the start; as far as a server without that backend goes: it looks for it."""
    for model in ("preprocess", "preprocess_dali"):
        copy_model(model, tmp_path)
    with run_server(tmp_path, "--model-config-name=dali") as server:
        index = server.index()
    assert index["preprocess"]["state"] == "READY"
    assert "backend 'dali'" in index["preprocess_dali"]["reason"]


def test_without_dali_optional_models_are_left_out_and_others_fail(tmp_path: Path) -> None:
    """By `endcap serve` in a Python without DALI, as test_optional.py has it without a server."""
    for model in ("preprocess", "preprocess_dali"):
        copy_model(model, tmp_path / "models")
    python = World(tmp_path / "python", without=("nvidia", "nvidia_dali*")).python
    command = [*map(str, (python, "-m", "endcap", "serve", tmp_path / "models", *PORTS))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        models = next(line for line in process.stdout if line.startswith("models"))
        said = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert models.split() == ["models", "preprocess"]
    assert said.startswith(f"endcap: preprocess_dali is left out: {INSTALL}")
    assert said.endswith("'nvidia-dali-cuda130>=2.0'`\n")
    named = [*command, "--model", "preprocess_dali"]
    done = subprocess.run(named, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert INSTALL in done.stderr
    assert done.stderr.count("\n") == 1
