"""endcap infer: options of the connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.cli.options import ServerOptions
from endcap.errors import InvalidArgumentError
from tests.support.cli_runs import assert_error_message, endcap


def test_options_of_the_connection() -> None:
    headers = ["Authorization: Bearer a:b", "x-trace:7", "empty:"]
    server = ServerOptions(timeout=2.5, header=headers, tls_ca=Path(__file__))
    options = server.client_arguments(retries=0).connection
    assert options.headers == {"Authorization": "Bearer a:b", "x-trace": "7", "empty": ""}
    assert (options.timeout_s, options.retries) == (2.5, 0)
    assert options.tls is not None
    assert options.tls.ca == Path(__file__)
    assert ServerOptions().client_arguments().connection.tls is None


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (["no colon"], "NAME:VALUE"),
        ([": value"], "NAME:VALUE"),
        (["X-A:1", "x-b:1", "x-a: 2"], "x-a is given twice"),
    ],
)
def test_headers_that_are_refused(headers: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ServerOptions(header=headers).client_arguments()


def test_tls_without_its_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8")
    result = endcap("infer", tmp_path / "a.jpg", "--tls-ca", tmp_path / "none.pem")
    assert_error_message(result, "none.pem", "PEM")
