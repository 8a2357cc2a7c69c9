"""docs/tutorial.md and docs/tutorial_serve.md as a reader follows them, in the pages' order.

endcap and the client run in the server's environment, the training and the check in this one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.doc_pages import ROOT, blocks
from tests.support.tolerances import SERVED_BOX_PIXELS, SERVED_SCORE

pytest.importorskip("torch", reason="torch is not installed; `make test-peers` has it")
pytest.importorskip("torchvision", reason="torchvision is not installed; `make test-peers` has it")

SERVER_PYTHON = os.environ.get("ENDCAP_SERVER_PYTHON", "")
PAGES = [ROOT / "docs" / name for name in ("tutorial.md", "tutorial_serve.md")]
BLOCKS = [block for page in PAGES for block in blocks(page)]
FILES = {block.caption: block.text for block in BLOCKS if block.caption.endswith(".py")}
COMMANDS = [
    line.partition("#")[0].strip()
    for block in BLOCKS
    if block.language == "sh"
    for line in block.text.splitlines()
]
SERVE = "endcap serve models"
CLIENT_URL = "127.0.0.1:8001"
FREE_PORTS = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]

pytestmark = pytest.mark.skipif(
    not SERVER_PYTHON, reason="ENDCAP_SERVER_PYTHON names no Python with the extra `server`"
)


def run(command: str, folder: Path, address: str = CLIENT_URL) -> str:
    """Runs a command of the page in the reader's folder; returns what it prints."""
    program, *arguments = command.split()
    if program == "endcap":
        more = ["--url", address] if arguments[0] == "infer" else []
        words = [SERVER_PYTHON, "-m", "endcap", *arguments, *more]
    else:
        (file,) = arguments
        words = [SERVER_PYTHON if "endcap" in FILES[file] else sys.executable, file]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The reader's folder when `endcap serve` comes, and what the commands before it printed."""
    folder = tmp_path_factory.mktemp("reader")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    before = COMMANDS[: COMMANDS.index(SERVE)]
    return folder, {command: run(command, folder) for command in before}


@pytest.fixture(scope="module")
def address(reader: tuple[Path, dict[str, str]]) -> Iterator[str]:
    """Where the page's server listens for gRPC, on a port of its own."""
    folder, _ = reader
    log = folder / "serve.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [SERVER_PYTHON, "-m", *SERVE.split(), *FREE_PORTS],
            cwd=folder,
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + 120
        while not (found := re.search(r"grpc://(\S+)", text := log.read_text("utf-8"))):
            assert server.poll() is None, text
            assert time.monotonic() < deadline, text
            time.sleep(0.1)
        yield found[1]
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


@pytest.fixture(scope="module")
def printed(reader: tuple[Path, dict[str, str]], address: str) -> dict[str, str]:
    """What the commands behind `endcap serve` printed."""
    folder, _ = reader
    client = folder / "client.py"
    text = client.read_text(encoding="utf-8")
    assert CLIENT_URL in text
    client.write_text(text.replace(CLIENT_URL, address), encoding="utf-8")
    after = COMMANDS[COMMANDS.index(SERVE) + 1 :]
    return {command: run(command, folder, address) for command in after}


def test_init_and_validate_say_what_the_page_says(reader: tuple[Path, dict[str, str]]) -> None:
    _, output = reader
    decisions = " ".join(output["endcap init detector.onnx -o models --labels labels.txt"].split())
    told = next(b.text for b in BLOCKS if b.language == "text" and "box_format" in b.text)
    rows = re.findall(r"^  (\w+) +(\w+) ", told, re.MULTILINE)
    assert len(rows) == 3
    for name, value in rows:
        assert f"{name} {value} " in decisions
    assert "class names ring, square " in decisions
    assert output["endcap validate models"].splitlines()[-1] == "4 models, 0 errors, 0 warnings"


def test_detections_from_the_command_line_and_from_python(
    reader: tuple[Path, dict[str, str]], printed: dict[str, str]
) -> None:
    folder, _ = reader
    pictures = sorted((folder / "pictures").iterdir())
    assert len(list((folder / "drawn").iterdir())) == len(pictures) == 8
    served = json.loads((folder / "served.json").read_text("utf-8"))
    assert [each["image"] for each in served] == [f"pictures/{each.name}" for each in pictures]
    assert {one["label"] for each in served for one in each["detections"]} == {"ring", "square"}
    expected = [
        f"{each['image']} ok {one['label']} {round(one['score'], 2)} {tuple(one['box'])}"
        for each in served[:2]
        for one in each["detections"]
    ]
    assert printed["python client.py"].splitlines() == expected
    assert len(expected) > 0


def test_the_server_gives_what_pytorch_gives(
    reader: tuple[Path, dict[str, str]], printed: dict[str, str]
) -> None:
    count, pixels, score = re.findall(r"\d+(?:\.\d+)?", printed["python check.py"])
    served = json.loads((reader[0] / "served.json").read_text("utf-8"))
    assert int(count) == sum(len(each["detections"]) for each in served) >= 8
    assert float(pixels) <= SERVED_BOX_PIXELS
    assert float(score) <= SERVED_SCORE
    *_, last = printed["endcap infer pictures --compare models"].splitlines()
    assert last.split()[-8:-3] == [count, count, count, "0", "0"]
