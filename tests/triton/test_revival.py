"""Python models whose process dies, and what TritonServer.revive does about it."""

from __future__ import annotations

import os
import signal
import urllib.request
from pathlib import Path

import pytest
import tritonclient.grpc as grpc_client
from model_folders import tensor, write_ensemble
from running_server import FREE_PORTS, wait_for
from stub_models import RAISES_AT_LOAD, TOUCHY, ask, write_model
from tritonclient.utils import InferenceServerException

from endcap.server import ServerSettings, TritonServer, launch
from endcap.server.revival import StubWatch

# A server with a process that has died waits at its end until its timeout.
SETTINGS = ServerSettings(ports=FREE_PORTS, revive=True, stop_timeout_s=1)
REVIVED = [
    "the process of model 'touchy' has ended (SIGKILL)",
    "model 'touchy' is loaded again",
]


@pytest.fixture
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that failed is tried again after half a second."""
    monkeypatch.setattr(launch, "_REVIVED_AFTER_S", 0.5)


@pytest.fixture
def served_before(tmp_path: Path) -> Path:
    """`touchy` twice and `over`, an ensemble of it; nothing changes a file in their folders."""
    models = tmp_path / "models"
    folder = write_model(models, "touchy", TOUCHY)
    with (folder / "config.pbtxt").open("a") as config:
        config.write("instance_group { count: 2 kind: KIND_CPU }\n")
    x, y = (tensor(name, "TYPE_FP32", [1]) for name in "xy")
    step = ("touchy", {"x": "x"}, {"y": "y"})
    write_ensemble(models, "over", inputs=[x], outputs=[y], steps=[step])
    with TritonServer(models, SETTINGS):
        pass  # Python has written its bytecode
    assert (folder / "1" / "__pycache__").is_dir()
    return models


def connect(server: TritonServer) -> grpc_client.InferenceServerClient:
    return grpc_client.InferenceServerClient(server.grpc_url.removeprefix("grpc://"))


def control(server: TritonServer, model: str, action: str) -> None:
    """Loads or unloads a model with the launcher's key."""
    url = f"{server.http_url}/v2/repository/models/{model}/{action}"
    request = urllib.request.Request(url, data=b"{}", headers=server.restriction.headers)
    with urllib.request.urlopen(request, timeout=30):
        pass


def processes(server: TritonServer) -> set[int]:
    """The process ids of `touchy`."""
    assert server.pid is not None
    return StubWatch(server.pid).running("touchy")


def kill_one(server: TritonServer) -> None:
    os.kill(max(processes(server)), signal.SIGKILL)


@pytest.mark.usefixtures("soon_again")
def test_a_model_whose_process_dies_is_revived(tmp_path):
    code = write_model(tmp_path / "models", "touchy", TOUCHY) / "1" / "model.py"
    with TritonServer(tmp_path / "models", SETTINGS) as server, connect(server) as client:
        assert list(server.revive()) == []
        assert ask(client, "touchy", 4) == 4
        with pytest.raises(InferenceServerException, match="is not healthy"):
            ask(client, "touchy", 13)
        said = wait_for(lambda: list(server.revive()))
        assert said == REVIVED
        assert ask(client, "touchy", 5) == 5
        assert list(server.revive()) == []
        # One that ends as if it had been unloaded, and cannot be loaded at once
        code.write_text(RAISES_AT_LOAD)
        with pytest.raises(InferenceServerException, match="is not healthy"):
            ask(client, "touchy", 14)
        said = wait_for(lambda: list(server.revive()))
        assert said[0] == "the process of model 'touchy' has ended (exit code 0)"
        (failed,) = said[1:] or wait_for(lambda: list(server.revive()))
        assert failed.startswith("model 'touchy' cannot be loaded again: ")
        code.write_text(TOUCHY)
        assert wait_for(lambda: list(server.revive())) == ["model 'touchy' is loaded again"]
        assert ask(client, "touchy", 6) == 6
        # One that has been unloaded stays so
        control(server, "touchy", "unload")
        wait_for(lambda: not server.models())
        assert [list(server.revive()) for _ in range(3)] == [[], [], []]


@pytest.mark.usefixtures("soon_again")
def test_a_model_whose_files_have_not_changed_is_revived(served_before):
    with TritonServer(served_before, SETTINGS) as server, connect(server) as client:
        assert list(server.revive()) == []
        first = processes(server)
        kill_one(server)
        assert wait_for(lambda: list(server.revive())) == REVIVED
        assert [each.name for each in server.models()] == ["over", "touchy"]
        assert [ask(client, "over", x) for x in range(4)] == [0, 1, 2, 3]
        assert [ask(client, "touchy", x) for x in range(4)] == [0, 1, 2, 3]
        # The other process of the first load may live on, and is nobody's loss.
        for left in first & processes(server):
            os.kill(left, signal.SIGKILL)
        assert [list(server.revive()) for _ in range(3)] == [[], [], []]
        kill_one(server)
        assert wait_for(lambda: list(server.revive())) == REVIVED
        assert [ask(client, "over", x) for x in range(4)] == [0, 1, 2, 3]


@pytest.mark.usefixtures("soon_again")
def test_a_load_that_brings_no_new_process_is_no_success(served_before, monkeypatch):
    with TritonServer(served_before, SETTINGS) as server, connect(server) as client:
        assert list(server.revive()) == []
        with monkeypatch.context() as without_unloading:
            without_unloading.setattr(
                launch, "reload_model", lambda url, name, headers: control(server, name, "load")
            )
            kill_one(server)
            ended, failed = wait_for(lambda: list(server.revive()))
        assert ended == REVIVED[0]
        assert failed.startswith("model 'touchy' cannot be loaded again: ")
        assert "no new process" in failed
        assert wait_for(lambda: list(server.revive())) == REVIVED[1:]
        assert ask(client, "over", 5) == 5
