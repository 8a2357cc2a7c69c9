"""TLS: the server's own over gRPC, and that of what stands before it over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from endcap.client.calls import Call, InputTensor, Response
from endcap.client.connection import AsyncConnection, Connection
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions, Tls, parse_address
from endcap.errors import InvalidArgumentError
from tests.support.tcp_proxy import TcpProxy, proxy_to
from tests.triton import client_models
from tests.triton.running_server import RunningServer, run_server

FILES = Path(__file__).resolve().parents[1] / "data" / "tls"  # see make.sh there
CA, STRANGER = FILES / "ca.pem", FILES / "stranger.pem"
CLIENT = {"certificate": FILES / "client.pem", "key": FILES / "client.key"}
CALL = Call("classes", [InputTensor.of("logits", np.float32([[0, 1, 2, 3, 4]]))], [])
KINDS = pytest.mark.parametrize("kind", ["sync", "async"])
PROTOCOLS = pytest.mark.parametrize("protocol", ["grpc", "http"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Over gRPC it takes clients that show a certificate of the authority's, and no others."""
    repository = tmp_path_factory.mktemp("tls")
    client_models.write_classes(repository)
    options = (
        "--grpc-use-ssl-mutual=true",
        f"--grpc-server-cert={FILES / 'server.pem'}",
        f"--grpc-server-key={FILES / 'server.key'}",
        f"--grpc-root-cert={CA}",
    )
    with run_server(repository, *options) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(server: RunningServer) -> Iterator[TcpProxy]:
    """The same over HTTP."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "server.pem", FILES / "server.key")
    context.load_verify_locations(CA)
    context.verify_mode = ssl.CERT_REQUIRED
    with proxy_to(server.http, tls=context) as standing:
        yield standing


def request(url: str, kind: str, tls: Tls | None) -> Response:
    address, options = parse_address(url), ConnectionOptions(tls=tls, retries=0)

    async def run() -> Response:
        async with AsyncConnection(address, options) as connection:
            assert str(connection.address).split(":")[0] in ("grpcs", "https")
            return await connection.infer(CALL)

    if kind == "async":
        return asyncio.run(run())
    with Connection(address, options) as connection:
        return connection.infer(CALL)


@pytest.fixture
def authority(server: RunningServer, proxy: TcpProxy, protocol: str) -> str:
    return server.grpc if protocol == "grpc" else proxy.address


@KINDS
@PROTOCOLS
def test_both_sides_show_who_they_are(authority: str, protocol: str, kind: str) -> None:
    for url in (f"{protocol}s://{authority}", f"{protocol}://{authority}"):
        ids = request(url, kind, Tls(ca=CA, **CLIENT)).tensors["class_ids"]
        assert ids is not None
        assert ids.tolist() == [[4, 3, 2]]


@KINDS
@PROTOCOLS
@pytest.mark.parametrize(
    "tls",
    [Tls(ca=STRANGER, **CLIENT), Tls(ca=CA), Tls(**CLIENT), None],
    ids=["another authority", "no certificate", "the usual authorities", "nothing given"],
)
def test_strangers_are_not_spoken_with(
    authority: str, protocol: str, kind: str, tls: Tls | None
) -> None:
    with pytest.raises(RequestError) as caught:
        request(f"{protocol}s://{authority}", kind, tls)
    assert caught.value.status_name == "unavailable"


@KINDS
def test_https_accepts_any_certificate_without_verification(proxy: TcpProxy, kind: str) -> None:
    response = request(f"https://{proxy.address}", kind, Tls(verify=False, **CLIENT))
    assert set(response.tensors) == {"class_scores", "class_ids"}


@pytest.mark.parametrize("make", [Connection, AsyncConnection])
def test_unusable_options_are_refused_at_once(
    make: type[Connection] | type[AsyncConnection], tmp_path: Path
) -> None:
    (tmp_path / "no.pem").write_text("nothing")
    for url, tls, words in (
        ("grpcs://host", Tls(verify=False), "gRPC always verifies the server's certificate"),
        ("grpcs://host", Tls(ca=tmp_path / "no.pem"), "give PEM files"),
        ("https://host", Tls(ca=tmp_path / "no.pem"), "give PEM files"),
        ("https://host", Tls(certificate=CA, key=FILES / "client.key"), "the key that belongs to"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            make(parse_address(url), ConnectionOptions(tls=tls))
