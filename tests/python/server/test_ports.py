"""Ports for a Triton server: those that are asked for, and free ones."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from endcap.server import ServerError, ServerPorts, ServerSettings, TritonServer, settings
from endcap.server.settings import PortReservation
from tests.support.echo_model import write_echo_model

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


def test_picked_ports_differ() -> None:
    reservation = PortReservation("127.0.0.1", FREE)
    picked = reservation.ports
    reservation.close()
    assert len({picked.http, picked.grpc, picked.metrics, 0}) == 4
    with pytest.raises(ServerError, match="port 70000 on 127"):
        PortReservation("127.0.0.1", ServerPorts(http=70000, grpc=0, metrics=0))


def test_a_picked_port_is_nobody_elses_until_the_server_listens() -> None:
    reservation = PortReservation("127.0.0.1", FREE)
    address = ("127.0.0.1", reservation.ports.http)
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(address)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "_PICKED_FROM", range(address[1], address[1] + 1))
        with pytest.raises(ServerError, match="no free port was found"):
            PortReservation("127.0.0.1", FREE)
    with socket.create_server(address) as server:  # with SO_REUSEADDR, as Triton does
        reservation.close()
        socket.create_connection(address).close()
        server.accept()[0].close()
