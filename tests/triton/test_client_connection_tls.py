"""TLS: the server's own over gRPC, and that of what stands before it over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from endcap.client import ClientError, ConnectionOptions, Tls
from tests.support.tcp_proxy import proxy_to
from tests.triton.client_layouts import LAYOUTS, OVER_HTTP, Layout, each
from tests.triton.client_models import make_file, sizes, write_detect
from tests.triton.running_server import run_server

FILES = Path(__file__).resolve().parents[1] / "data" / "tls"  # see make.sh there
CA, STRANGER = FILES / "ca.pem", FILES / "stranger.pem"
CLIENT = {"certificate": FILES / "client.pem", "key": FILES / "client.key"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Addresses that take clients with a certificate of the authority's, and no others."""
    repository = tmp_path_factory.mktemp("tls")
    write_detect(repository)
    options = (
        "--grpc-use-ssl-mutual=true",
        f"--grpc-server-cert={FILES / 'server.pem'}",
        f"--grpc-server-key={FILES / 'server.key'}",
        f"--grpc-root-cert={CA}",
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "server.pem", FILES / "server.key")
    context.load_verify_locations(CA)
    context.verify_mode = ssl.CERT_REQUIRED
    with run_server(repository, *options) as running, proxy_to(running.http, tls=context) as proxy:
        yield SimpleNamespace(grpc=running.grpc, http=proxy.address)


def detect(layout: Layout, server: Any, scheme: str, tls: Tls | None) -> list[int]:
    options = ConnectionOptions(tls=tls, retries=0)
    with layout.client(server, scheme=scheme, options=options) as client:
        return sizes(client.detect([make_file(3)]))


@each(LAYOUTS)
def test_both_sides_show_who_they_are(server: Any, layout: Layout) -> None:
    for scheme in (f"{layout.protocol}s", layout.protocol):
        assert detect(layout, server, scheme, Tls(ca=CA, **CLIENT)) == [3]


@each(LAYOUTS)
@pytest.mark.parametrize(
    "tls",
    [Tls(ca=STRANGER, **CLIENT), Tls(ca=CA), Tls(**CLIENT), None],
    ids=["another authority", "no certificate", "the usual authorities", "nothing given"],
)
def test_strangers_are_not_spoken_with(server: Any, layout: Layout, tls: Tls | None) -> None:
    with pytest.raises(ClientError, match="no Triton server responds"):
        detect(layout, server, f"{layout.protocol}s", tls)


@each(OVER_HTTP)
def test_https_accepts_any_certificate_without_verification(server: Any, layout: Layout) -> None:
    assert detect(layout, server, "https", Tls(verify=False, **CLIENT)) == [3]
