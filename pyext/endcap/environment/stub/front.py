"""The compiled front of the stub: where it lies, and what it says of files and models."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import endcap
from endcap.environment.stub.errors import StubError

STUB_NAME = "triton_python_backend_stub"
REAL_STUB_NAME = f"{STUB_NAME}.real"
SETTINGS_NAME = "endcap-stub.json"
LOG_NAME = "endcap-stub.log"

_MARK = b"ENDCAP_STUB_REFUSAL"  # a text of the front's that no other stub contains
_ANSWERS_WITHIN_S = 60.0


@dataclass(frozen=True, kw_only=True)
class StubDescription:
    """What a stub's file tells: its Python ("3.11"), its fingerprint, whether it takes NumPy 2."""

    python: str | None
    build_id: str
    takes_numpy_2: bool | None


def find_front() -> Path:
    """Return the compiled front of this package; raise StubError where it was not built."""
    # An editable install has two package folders: the sources, and what was built.
    for root in endcap.__path__:
        program = Path(root) / "backends" / "python_stub" / STUB_NAME
        if program.is_file():
            return program
    raise StubError(
        f"the compiled stub is not in this installation of endcap (searched "
        f"{', '.join(endcap.__path__)}); reinstall it with `pip install endcap`"
    )


def is_front(program: Path) -> bool:
    """Whether a stub in a model's folder is this package's front, of whatever version."""
    return program.is_file() and _MARK in program.read_bytes()


def describe(file: Path) -> StubDescription:
    """Return what an ELF file tells; raise StubError where it is none."""
    finished = _run(find_front(), "--describe", str(file))
    if finished.returncode != 0:
        raise StubError(
            f"{file} is no stub: it is not a program of this machine; name the "
            f"{STUB_NAME} of a Triton server's release"
        )
    return StubDescription(**json.loads(finished.stdout))


def report(
    model_dir: Path, server_folder: Path | None, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return what this package's front says of a model in an environment; run nothing of it.

    Args:
        server_folder: The server's backends/python, None where there is none.
    """
    front = find_front()
    place = [str(server_folder)] if server_folder is not None else []
    finished = _run(front, "--check", str(model_dir), *place, environment=environment)
    try:
        answer: dict[str, Any] = json.loads(finished.stdout)
    except ValueError as error:
        raise StubError(
            f"{front} gives no report ({finished.stderr.strip() or 'it says nothing'}); install "
            "endcap again"
        ) from error
    return answer


def _run(
    program: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [str(program), *arguments],
            env=None if environment is None else dict(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWERS_WITHIN_S,
            check=False,
        )
    except OSError as error:
        raise StubError(f"{program} cannot be run: {error.strerror}; install it again") from error
    except subprocess.TimeoutExpired as error:
        raise StubError(
            f"{program} gives no answer within {_ANSWERS_WITHIN_S:g} s; see that the folders of "
            "the model, of its environment and on PATH can be read"
        ) from error
