"""The packages in an environment's folder; nothing of it is run."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Package:
    """One package, its installer ("conda" or "pip"), and the size of its files."""

    name: str
    version: str
    installer: str
    size_bytes: int


def packages(prefix: Path) -> list[Package]:
    """Return all packages of an environment, sorted by name."""
    records = _records(prefix)
    result = [
        Package(
            record["name"],
            record["version"],
            "conda",
            sum(_bytes(prefix / path) for path in record["files"]),
        )
        for record in records
    ]
    of_conda = _files(records)
    for distribution, folder in _distributions(prefix):
        if f"{folder.relative_to(prefix)}/METADATA" not in of_conda:
            name = _canonical(distribution.name)
            result.append(Package(name, distribution.version, "pip", _size_of(distribution)))
    return sorted(result, key=lambda package: package.name)


def files_of_conda(prefix: Path) -> set[str]:
    """Return the paths, in the environment, of the files that conda has installed."""
    return _files(_records(prefix))


def _records(prefix: Path) -> list[dict[str, Any]]:
    files = (prefix / "conda-meta").glob("*.json")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _files(records: list[dict[str, Any]]) -> set[str]:
    return {path for record in records for path in record["files"]}


def distributions(prefix: Path) -> list[tuple[str, str]]:
    """Return name and version of each Python distribution, of conda or pip."""
    return [(_canonical(each.name), each.version) for each, _ in _distributions(prefix)]


def _distributions(prefix: Path) -> Iterator[tuple[Distribution, Path]]:
    for folder in sorted(prefix.glob("lib/python3.*/site-packages/*.dist-info")):
        yield PathDistribution(folder), folder


def _canonical(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def _size_of(distribution: Distribution) -> int:
    rows = csv.reader((distribution.read_text("RECORD") or "").splitlines())
    return sum(_bytes(Path(str(distribution.locate_file(row[0])))) for row in rows if row)


def _bytes(path: Path) -> int:
    return path.lstat().st_size if path.is_file() or path.is_symlink() else 0
