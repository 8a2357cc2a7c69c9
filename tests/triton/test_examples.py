"""The programs of examples/ as a reader runs them, against the shipped repository's `detect`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.client import Detection, DetectionClient
from tests.support.doc_pages import ROOT
from tests.support.tcp_proxy import proxy_to
from tests.triton.running_server import RunningServer

EXAMPLES = ROOT / "examples"
SAMPLES = ROOT / "model_repository" / "detect" / "samples"
FILES = [str(SAMPLES / name) for name in ("shapes_640x427.jpg", "shapes_600x800_exif6.jpg")]
# A server on this machine is never behind a proxy.
ENVIRONMENT = {**os.environ, "no_proxy": "*"}


@pytest.fixture(scope="module")
def served(compiled_server: RunningServer) -> RunningServer:
    compiled_server.load("detect")
    return compiled_server


@pytest.fixture(scope="module")
def expected(served: RunningServer) -> dict[str, list[Detection]]:
    """What there is to detect in each of FILES."""
    with DetectionClient(served.grpc) as client:
        found = {result.image: result.detections for result in client.detect(FILES)}
    assert min(map(len, found.values())) > 3
    return found


@pytest.fixture
def broken(tmp_path: Path) -> str:
    path = tmp_path / 'not "a" jpeg.jpg'
    path.write_bytes(b"not a JPEG file")
    return str(path)


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def python(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-W", "error", str(EXAMPLES / "python" / name), *arguments)


def format_lines(found: dict[str, list[Detection]], form: str) -> list[str]:
    """A line for each detection, as the example prints it."""
    return [
        form.format(
            file=file,
            box="{:.1f} {:.1f} {:.1f} {:.1f}".format(*each.box),
            score=each.score,
            class_id=each.class_id,
            label=each.label,
        )
        for file, detections in found.items()
        for each in detections
    ]


def test_curl(served: RunningServer, expected: dict[str, Any], broken: str, tmp_path: Path) -> None:
    assert shutil.which("curl"), "this test runs curl: scripts/system_packages.sh test installs it"
    any_name = tmp_path / 'a "name"\twith\\\nall\x01.jpg'
    shutil.copy(FILES[1], any_name)
    script = str(EXAMPLES / "curl" / "detect.sh")
    files = [FILES[0], broken, str(any_name), "nosuch.jpg"]
    done = run(script, *files, URL=f"http://{served.http}")
    assert done.returncode == 1
    assert "corrupt_image: the data is not an image" in done.stderr
    assert "nosuch.jpg cannot be read" in done.stderr
    reported = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["image"] for each in reported] == [FILES[0], str(any_name)]
    for each, rows in zip(reported, expected.values(), strict=True):
        sent = [
            (tuple(np.float32(row["box"]).tolist()), float(np.float32(row["score"])))
            for row in each["detections"]
        ]
        assert sent == [(row.box, row.score) for row in rows]
        assert [row["class_id"] for row in each["detections"]] == [row.class_id for row in rows]


def test_cpp(
    served: RunningServer, expected: dict[str, list[Detection]], broken: str, tmp_path: Path
) -> None:
    """Built by its own CMakeLists.txt."""
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert cmake, "this test builds an example: it needs cmake"
    options = ["-DCMAKE_CXX_FLAGS=-O0 -Werror", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"]
    for command in (
        [cmake, "-S", str(EXAMPLES / "cpp"), "-B", str(tmp_path), *options],
        [cmake, "--build", str(tmp_path)],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    program = str(tmp_path / "detect")
    with proxy_to(served.http) as proxy:
        files = [FILES[0], broken, "nosuch.jpg", FILES[1]]
        done = run(program, f"http://{proxy.address}", *files)
        assert (done.returncode, proxy.connections) == (1, 1)
    assert done.stdout.splitlines() == format_lines(
        expected, "{file}  {box}  {score:.3f}  {class_id}"
    )
    assert re.search(r"^detect: .*: .*corrupt_image: the data is not", done.stderr, re.MULTILINE)
    assert "detect: nosuch.jpg: it cannot be read" in done.stderr
    done = run(program, "http://127.0.0.1:1", FILES[0])
    assert done.returncode == 1
    assert "http://127.0.0.1:1: Couldn't connect to server" in done.stderr
    assert run(program).returncode == 2


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("plain_tritonclient.py", "{file}  {class_id}  {score:.3f}  {box}"),
        ("detect.py", "{file}  {label}  {score:.3f}  {box}"),
        ("shared_memory.py", "{file}  {class_id}  {score:.3f}  {box}"),
    ],
)
def test_python(
    served: RunningServer,
    expected: dict[str, list[Detection]],
    broken: str,
    name: str,
    form: str,
) -> None:
    done = python(name, "--url", served.grpc, *FILES, broken)
    assert done.returncode == 1
    assert done.stdout.splitlines() == format_lines(expected, form)
    assert "the data is not an image" in done.stderr
    assert served.shared_regions() == set()


def test_asyncio(served: RunningServer, expected: dict[str, list[Detection]], broken: str) -> None:
    done = python("detect_asyncio.py", "--url", f"http://{served.http}", *FILES, broken)
    assert done.returncode == 1
    assert "corrupt_image: the data is not an image" in done.stderr
    reported = dict(re.findall(r"^(\S+)  [\d.]+ ms  (.*)$", done.stdout, re.MULTILINE))
    counts = {
        file: Counter(each.label for each in detections) for file, detections in expected.items()
    }
    assert reported == {
        file: ", ".join(f"{count} {label}" for label, count in sorted(counted.items()))
        for file, counted in counts.items()
    }


def test_a_stream_of_frames(served: RunningServer, expected: dict[str, list[Detection]]) -> None:
    frames = [FILES[0], FILES[1], FILES[0]]
    video = b"".join(Path(file).read_bytes() for file in frames)
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "python" / "detect_stream.py"), "--url", served.grpc],
        input=video,
        capture_output=True,
        timeout=120,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["final"], line["status"]) for line in lines] == [(True, "ok")] * 3
    for line, file in zip(lines, frames, strict=True):
        boxes = [tuple(each["box"]) for each in line["detections"]]
        assert boxes == [each.box for each in expected[file]]


def test_cuda_shared_memory(served: RunningServer, expected: dict[str, list[Detection]]) -> None:
    done = python("cuda_shared_memory.py", "--url", served.grpc, *FILES)
    if endcap.cuda_state().devices:
        lines = format_lines(expected, "{file}  {class_id}  {score:.3f}  {box}")
        assert (done.returncode, done.stdout.splitlines()) == (0, lines)
    else:
        assert done.returncode == 1
        assert re.match(r"cuda_shared_memory.py: .*(GPU|CUDA|driver)", done.stderr), done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_every_example_is_in_the_table() -> None:
    programs = {
        str(path.relative_to(EXAMPLES))
        for path in EXAMPLES.rglob("*")
        if path.suffix in (".py", ".sh", ".cc")
    }
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| \[([^\]]+)\]\(\1\) \|", table, re.MULTILINE)) == programs
