"""endcap serve as a process: what it prints, how it stops, and what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import tritonclient.grpc

from endcap.client.options import parse_address
from endcap.server.launch import is_ready
from tests.support.cli_runs import endcap
from tests.support.echo_model import write_echo_model
from tests.support.family_networks import classifier, yolov8


@pytest.fixture
def echo_repository(tmp_path: Path) -> Path:
    return write_echo_model(tmp_path / "models")


def start_serve(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from endcap.cli.app import main; main()", "serve"]
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    return subprocess.Popen(
        [*command, *map(str, arguments), *ports],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    )


def read_until_ready(process: subprocess.Popen[str]) -> dict[str, str]:
    """Returns what serve prints when it is ready, by its first word."""
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Ready.")
    lines = [process.stdout.readline().split(maxsplit=1) for _ in range(5)]
    # The row below that of the server has no name.
    return {name: value.strip() for name, value in lines} | {"": process.stdout.readline().strip()}


def find_server(process: subprocess.Popen[str]) -> int:
    """The process id of the tritonserver that a `serve` has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (child,) = children
    return int(child)


def test_a_network_is_served_as_init_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a folder that is gone with the server."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    model = yolov8().write(tmp_path / "my model.onnx")
    with start_serve(model) as process:
        assert process.stdout is not None
        lines = list(iter(process.stdout.readline, "Ready. Ctrl-C stops the server.\n"))
        assert lines[0] == "my model.onnx\n"
        assert any(line.split()[:2] == ["preset", "ultralytics"] for line in lines)
        shown = dict(process.stdout.readline().split(maxsplit=1) for _ in range(4))
        assert shown["models"].strip() == "detect, detector, postprocess, preprocess"
        (folder,) = temporary.glob("endcap-models-*")
        assert (folder / "models" / "detector" / "1" / "model.onnx").is_file()
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    assert "`endcap init '" in printed
    assert process.returncode == 0
    assert not folder.exists()


def test_a_network_that_init_has_questions_about_is_not_served(tmp_path: Path) -> None:
    model = classifier().write(tmp_path / "model.onnx")
    done = endcap("serve", model)
    assert done.exit_code == 2
    message = " ".join(done.stderr.split())
    assert "--head classification" in message
    assert f"options are for `endcap init {model}`, then run `endcap serve models`" in message


def test_serve_names_a_command_for_its_ports(tmp_path: Path) -> None:
    repository = write_echo_model(tmp_path / "models")
    (repository / "echo").rename(repository / "classify")
    with start_serve(repository) as process:
        shown = read_until_ready(process)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        rest = process.stdout.read()  # communicate() would leave out what was read ahead
    at = f" --url {shown['gRPC'].removeprefix('grpc://')}"
    assert f"try endcap infer photo.jpg --model classify{at}" in " ".join(rest.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_serve_runs_until_a_signal_and_stops_cleanly(
    echo_repository: Path, number: signal.Signals
) -> None:
    process = start_serve(echo_repository)
    shown = read_until_ready(process)
    server_id = find_server(process)
    assert shown["models"] == "echo"
    assert is_ready(shown["HTTP"])
    with urllib.request.urlopen(shown["metrics"], timeout=5) as response:
        assert b"nv_inference_request_success" in response.read()
    grpc = parse_address(shown["gRPC"])
    assert grpc.protocol == "grpc"
    with tritonclient.grpc.InferenceServerClient(grpc.authority) as client:
        assert client.is_server_ready()
    process.send_signal(number)
    _, problems = process.communicate(timeout=60)
    assert process.returncode == 0, problems
    assert not Path(f"/proc/{server_id}").exists()


def test_serve_ends_with_an_error_when_the_server_dies(
    echo_repository: Path, tmp_path: Path
) -> None:
    log_file = tmp_path / "server.log"
    process = start_serve(echo_repository, "--log-file", log_file)
    read_until_ready(process)
    os.kill(find_server(process), signal.SIGKILL)
    _, problems = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "tritonserver ended with signal SIGKILL" in problems
    assert "Traceback" not in problems
    assert "Started HTTPService" in log_file.read_text()


def test_serve_can_be_stopped_while_it_starts(echo_repository: Path) -> None:
    process = start_serve(echo_repository, "--verbose")
    assert process.stderr is not None
    for line in process.stderr:
        if "loading: echo" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_second_signal_kills_a_server_that_does_not_end(echo_repository: Path) -> None:
    process = start_serve(echo_repository)
    read_until_ready(process)
    server_id = find_server(process)
    os.killpg(server_id, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)  # it gives the server time to end
    process.send_signal(signal.SIGINT)
    _, problems = process.communicate(timeout=20)  # less than it would wait by itself
    assert (process.returncode, problems) == (0, "")
    deadline = time.monotonic() + 20
    while Path(f"/proc/{server_id}").exists():  # until init has noticed
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- the server's release -------------------------------------------------------------------------
