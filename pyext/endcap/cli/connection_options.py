"""From a command's options to those of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from endcap.cli.options import CompressionName
from endcap.client import ConnectionOptions, Tls


def connection_options(
    *,
    timeout: float,
    retries: int,
    headers: Sequence[str] = (),
    tls_ca: Path | None = None,
    compression: CompressionName | None = None,
) -> ConnectionOptions:
    """Return the options. Raises InvalidArgumentError or BadParameter for what cannot be used."""
    return ConnectionOptions(
        timeout_s=timeout,
        retries=retries,
        headers=_headers(headers),
        tls=Tls(ca=tls_ca) if tls_ca else None,
        compression=compression.value if compression else None,
    )


def _headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in map(_header, texts):
        if name.lower() in {each.lower() for each in headers}:
            raise typer.BadParameter(
                f"--header {name} is given twice; give one, its values separated by commas if it "
                "is a list"
            )
        headers[name] = value
    return headers


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise typer.BadParameter(f"--header {text!r} is not NAME:VALUE")
    return name.strip(), value.strip()
