"""Ports for a Triton server: those that are asked for, and free ones."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from echo_model import write_echo_model

from endcap.server import ServerError, ServerPorts, ServerSettings, TritonServer, settings
from endcap.server.settings import PortReservation

FREE = ServerPorts(http=0, grpc=0, metrics=0)


def test_a_port_in_use_is_an_error_message(tmp_path: Path) -> None:
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
    picked = PortReservation("127.0.0.1", FREE).ports
    assert len({picked.http, picked.grpc, picked.metrics, 0}) == 4
    with pytest.raises(ServerError, match=f"--http-port and --metrics-port are both {picked.http}"):
        PortReservation("127.0.0.1", ServerPorts(http=picked.http, grpc=0, metrics=picked.http))
    with pytest.raises(ServerError, match="port 70000 on 127"):
        PortReservation("127.0.0.1", ServerPorts(http=70000, grpc=0, metrics=0))


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
        picked = PortReservation("127.0.0.1", FREE).ports
        assert {picked.http, picked.grpc, picked.metrics} <= set(allowed)


def test_a_port_that_is_held_is_not_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        held = int(holder.getsockname()[1])
        monkeypatch.setattr(settings, "_never_outgoing", lambda: range(held, held + 1))
        picked = PortReservation("127.0.0.1", FREE).ports
    assert held not in {picked.http, picked.grpc, picked.metrics}


def test_a_picked_port_is_nobody_elses_until_the_server_listens() -> None:
    reservation = PortReservation("127.0.0.1", FREE)
    address = ("127.0.0.1", reservation.ports.http)
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(address)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "_never_outgoing", lambda: range(address[1], address[1] + 1))
        other = PortReservation("127.0.0.1", FREE)
    assert address[1] not in {other.ports.http, other.ports.grpc, other.ports.metrics}
    with socket.create_server(address) as server:  # with SO_REUSEADDR, as Triton does
        reservation.close()
        socket.create_connection(address).close()
        server.accept()[0].close()


def test_a_reservation_that_is_dropped_lets_go_of_its_ports() -> None:
    reservation = PortReservation("127.0.0.1", FREE)
    port = reservation.ports.grpc
    del reservation
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))
