"""Ports for a Triton server: those that are asked for, and free ones."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from echo_model import write_echo_model

from endcap.server import ServerError, ServerPorts, ServerSettings, TritonServer, settings
from endcap.server.settings import resolve_ports

FREE = ServerPorts(http=0, grpc=0, metrics=0)


def test_a_port_in_use_is_a_sentence(tmp_path: Path) -> None:
    echo_repository = write_echo_model(tmp_path / "models")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        port = holder.getsockname()[1]
        settings = ServerSettings(ports=ServerPorts(http=0, grpc=port, metrics=0))
        with pytest.raises(ServerError) as caught:
            TritonServer(echo_repository, settings).start()
    assert f"port {port} on 127.0.0.1 cannot be used for grpc" in str(caught.value)
    assert "--grpc-port (0 picks a free one)" in str(caught.value)


def test_ports_are_picked_and_told_apart() -> None:
    picked = resolve_ports("127.0.0.1", FREE)
    assert len({picked.http, picked.grpc, picked.metrics, 0}) == 4
    with pytest.raises(ServerError, match=f"--http-port and --metrics-port are both {picked.http}"):
        resolve_ports("127.0.0.1", ServerPorts(http=picked.http, grpc=0, metrics=picked.http))
    with pytest.raises(ServerError, match="port 70000 on 127"):
        resolve_ports("127.0.0.1", ServerPorts(http=70000, grpc=0, metrics=0))


def test_free_ports_are_not_those_of_outgoing_connections(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    setting = tmp_path / "range"
    monkeypatch.setattr(settings, "_OUTGOING", setting)
    for text, allowed in (
        ("20000\t60999\n", range(10000, 20000)),
        ("1024 60000", range(60001, 65536)),
        ("no numbers", range(10000, 32768)),
    ):
        setting.write_text(text)
        picked = resolve_ports("127.0.0.1", FREE)
        assert {picked.http, picked.grpc, picked.metrics} <= set(allowed)


def test_a_port_that_is_held_is_not_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        held = int(holder.getsockname()[1])
        monkeypatch.setattr(settings, "_never_outgoing", lambda: range(held, held + 1))
        picked = resolve_ports("127.0.0.1", FREE)
    assert held not in {picked.http, picked.grpc, picked.metrics}
