"""Programs of examples/ where something ordinary is wrong; no server is needed."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "python"
OURS = sorted(EXAMPLES.glob("[!p]*.py"))  # plain_tritonclient.py has no errors of endcap's
WHOLE = b"\xff\xd8\xff\xe0 data \xff\x00 \xff\xd0 more \xff\xd9"
CUT = WHOLE[:-4]


@pytest.mark.parametrize("program", OURS, ids=lambda path: str(path.name))
@pytest.mark.parametrize("url", ["nonsense:xx", "127.0.0.1:1"])
def test_a_wrong_address_is_an_error_message(program: Path, url: str) -> None:
    files = [] if program.name == "detect_stream.py" else [__file__]
    done = subprocess.run(
        [sys.executable, str(program), "--url", url, *files],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"{program.name}: ")
    assert len(done.stderr.splitlines()) == 1


def test_curl_without_a_server() -> None:
    script = EXAMPLES.parent / "curl" / "detect.sh"
    done = subprocess.run(
        [str(script), __file__], env={**os.environ, "URL": "http://127.0.0.1:1", "no_proxy": "*"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no server responds at http://127.0.0.1:1" in done.stderr


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def frames() -> Callable[[BinaryIO, int], Iterator[bytes]]:
    found: Callable[[BinaryIO, int], Iterator[bytes]] = loaded(EXAMPLES / "detect_stream.py").frames
    return found


@pytest.mark.parametrize("piece_bytes", [1, 2, 7, 1 << 16])
@pytest.mark.parametrize(
    "sent",
    [
        [], [WHOLE], [WHOLE, WHOLE], [CUT], [WHOLE, CUT], [CUT, WHOLE], [CUT, CUT, WHOLE, CUT],
        [b"no JPEG"], [b"no JPEG", WHOLE],
    ],
)  # fmt: skip
def test_every_frame_of_a_stream_comes_cut_or_whole(
    frames: Callable[[BinaryIO, int], Iterator[bytes]], sent: list[bytes], piece_bytes: int
) -> None:
    assert list(frames(io.BytesIO(b"".join(sent)), piece_bytes)) == sent
