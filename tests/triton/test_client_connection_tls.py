"""TLS: the server's own over gRPC, and that of what stands before it over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endcap.client.concurrency import Tasks, Threads
from endcap.client.connection import Connection
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions, Tls, parse_address
from endcap.errors import InvalidArgumentError
from tests.support.tcp_proxy import TcpProxy, proxy_to
from tests.triton import client_models
from tests.triton.connection_calls import KINDS, PROTOCOLS, infer
from tests.triton.running_server import RunningServer, run_server

FILES = Path(__file__).resolve().parents[1] / "data" / "tls"  # see make.sh there
CA, STRANGER = FILES / "ca.pem", FILES / "stranger.pem"
CLIENT = {"certificate": FILES / "client.pem", "key": FILES / "client.key"}
LOGITS = {"logits": np.float32([[0, 1, 2, 3, 4]])}


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


def request(url: str, kind: str, tls: Tls | None) -> Any:
    result = infer(parse_address(url), "classes", LOGITS, kind=kind, tls=tls, retries=0)
    return result.as_numpy("class_ids").tolist()


@pytest.fixture
def authority(server: RunningServer, proxy: TcpProxy, protocol: str) -> str:
    return server.grpc if protocol == "grpc" else proxy.address


@KINDS
@PROTOCOLS
def test_both_sides_show_who_they_are(authority: str, protocol: str, kind: str) -> None:
    for url in (f"{protocol}s://{authority}", f"{protocol}://{authority}"):
        assert request(url, kind, Tls(ca=CA, **CLIENT)) == [[4, 3, 2]]


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
    url, tls = f"https://{proxy.address}", Tls(verify=False, **CLIENT)
    assert request(url, kind, tls) == [[4, 3, 2]]


@pytest.mark.parametrize("make_runtime", [Threads, Tasks])
def test_unusable_options_are_refused_at_once(make_runtime: Any, tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("nothing")
    for url, tls, words in (
        ("grpcs://host", Tls(verify=False), "gRPC always verifies the server's certificate"),
        ("grpcs://host", Tls(ca=tmp_path / "no.pem"), "give PEM files"),
        ("https://host", Tls(ca=tmp_path / "no.pem"), "give PEM files"),
        ("https://host", Tls(certificate=CA, key=FILES / "client.key"), "the key that belongs to"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            Connection(parse_address(url), ConnectionOptions(tls=tls), make_runtime())
