"""The command line: options, output and exit codes, against a real Triton server.

The server runs a Python model with the outputs of the ensemble and known answers, so that what the
command line does with each kind of answer can be told.
"""

from __future__ import annotations

import http.server
import importlib.metadata
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answering_model import CONFIG, MODEL
from echo_model import write_model
from PIL import Image
from typer.testing import CliRunner, Result

from endcap.cli.app import app
from endcap.cli.demo import SAMPLES, find_repository
from endcap.cli.images import expand_images, write_pictures
from endcap.client import Detection, DetectionClient, ImageResult
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.repository import read_repository

FREE = ServerPorts(http=0, grpc=0, metrics=0)
PROTOCOLS = ["grpc", "http"]


def endcap(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models"), "detect", CONFIG, MODEL)


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[TritonServer]:
    with TritonServer(repository, ServerSettings(ports=FREE)) as server:
        yield server


@pytest.fixture
def urls(server: TritonServer) -> dict[str, str]:
    return {
        "grpc": server.grpc_url.removeprefix("grpc://"),
        "http": server.http_url.removeprefix("http://"),
    }


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.new("RGB", (64, 48), (90, 90, 90)).save(folder / "b.jpg")
    Image.new("L", (96, 80)).save(folder / "a.JPEG", "JPEG")
    (folder / "notes.txt").write_text("not an image")
    return folder


# --- help and usage -------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], ["serve"], ["infer"], ["demo"]], ids=" ".join)
def test_help_fits_80_columns_and_has_examples(command: list[str]) -> None:
    result = endcap(*command, "--help")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert f"endcap {command[0]} " if command else "endcap demo" in result.stdout
    assert "…" not in result.stdout, "nothing is cut off"


def test_version_is_the_packages() -> None:
    result = endcap("--version")
    assert result.stdout == f"endcap {importlib.metadata.version('endcap')}\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["infer"],
        ["infer", "a.jpg", "--concurrency", "0"],
        ["serve"],
        ["infer", "--x"],
    ],
)
def test_usage_errors_exit_with_2(arguments: list[str]) -> None:
    result = endcap(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
    assert result.stdout == ""


def assert_one_sentence(result: Result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("endcap: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, pictures: Path) -> None:
    photo = pictures / "b.jpg"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert_one_sentence(endcap("infer", tmp_path / "no.jpg"), "no.jpg is not there")
    assert_one_sentence(endcap("infer", f"{tmp_path}/*.jpg"), "fits no file")
    assert_one_sentence(endcap("infer", empty), "holds no JPEG file")
    assert_one_sentence(endcap("infer", photo, "--url", "https://x"), "use grpc:// or http://")
    assert_one_sentence(endcap("infer", photo, "--labels", tmp_path / "no.txt"), "no.txt")
    assert_one_sentence(endcap("serve", tmp_path / "no"), "is not a folder")
    assert_one_sentence(endcap("serve", empty), "holds no model")
    assert_one_sentence(endcap("serve", empty, "--log-file", "x"), "holds no model")
    assert_one_sentence(endcap("demo", "--images", empty), "holds no JPEG file")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_server_is_one_sentence_and_verbose_shows_where(pictures: Path, protocol: str) -> None:
    arguments = ["infer", pictures, "--url", "127.0.0.1:9", "--protocol", protocol]
    assert_one_sentence(
        endcap(*arguments),
        f"no Triton server answers at {protocol}://127.0.0.1:9",
        "`endcap serve REPOSITORY`",
    )
    verbose = endcap(*arguments, "--verbose")
    assert verbose.exit_code == 2
    assert "Traceback" in verbose.stderr


class NotTriton(http.server.BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keeps standard error, which is looked at, to the command."""


def test_another_program_at_the_address_is_one_sentence(pictures: Path) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), NotTriton) as other:
        url = f"http://127.0.0.1:{other.server_port}"
        threading.Thread(target=other.serve_forever, daemon=True).start()
        result = endcap("infer", pictures, "--url", url)
        other.shutdown()
    assert_one_sentence(result, f"what answers at {url} is no Triton server")


def test_files_folders_and_patterns_are_expanded(pictures: Path) -> None:
    a, b = pictures / "a.JPEG", pictures / "b.jpg"
    assert expand_images([str(b), str(pictures), f"{pictures}/*.txt"]) == [
        b, a, b, pictures / "notes.txt",
    ]  # fmt: skip
    assert expand_images([f"{pictures.parent}/**/*.jp*g"]) == [b]


def test_the_demo_finds_a_repository_that_triton_takes_and_its_pictures() -> None:
    repository = find_repository()
    names = {model.path.name for model in read_repository(repository)}
    assert names >= {"detect", "preprocess", "detector", "postprocess"}
    assert len(expand_images([str(repository / SAMPLES)])) >= 3


# --- infer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_json_over_both_protocols(urls: dict[str, str], pictures: Path, protocol: str) -> None:
    result = endcap("infer", pictures, "--url", urls[protocol], "--protocol", protocol, "--json")
    assert result.exit_code == 0, result.output
    detections = [
        {"box": [8.0, 8.0, 40.0, 32.0], "score": 0.75, "class_id": 1, "label": "square"},
        {"box": [10.5, 12.25, 20.0, 30.0], "score": 0.5, "class_id": 7, "label": None},
    ]
    assert json.loads(result.stdout) == [
        {"image": str(pictures / name), "status": "ok", "detections": detections}
        for name in ("a.JPEG", "b.jpg")
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_file_is_sent_as_it_is(urls: dict[str, str], pictures: Path, protocol: Any) -> None:
    photo = pictures / "b.jpg"
    with DetectionClient(urls[protocol], protocol=protocol) as client:
        from_path, from_bytes = client.detect([photo, photo.read_bytes()])
    assert from_path.detections[0].index == photo.stat().st_size
    assert from_bytes.detections == from_path.detections
    assert (from_path.image, from_bytes.image) == (str(photo), "image 1")
    assert from_path.latency_ms is not None
    assert from_path.latency_ms > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_failing_image_does_not_concern_the_others(
    urls: dict[str, str], pictures: Path, protocol: str
) -> None:
    contents = {"c.jpg": b"C", "d.jpg": b"B", "e.jpg": b"E"}
    for name, content in contents.items():
        (pictures / name).write_bytes(content)
    (pictures / "f.jpg").symlink_to("/proc/self/mem")  # a file that cannot be read, even by root
    (pictures / "g.jpg").mkdir()  # no file at all
    result = endcap("infer", pictures, "--url", f"{protocol}://{urls[protocol]}", "--json")
    rows = {Path(row["image"]).name: row for row in json.loads(result.stdout)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "a.JPEG": "ok",
        "b.jpg": "ok",
        "c.jpg": "corrupt_image",
        "d.jpg": "image_limit",
        "e.jpg": "ok",
        "f.jpg": "unreadable",
    }
    assert rows["c.jpg"]["error"] == "image 0 is not a JPEG"
    assert rows["e.jpg"] == {
        "image": str(pictures / "e.jpg"), "status": "ok", "detections": []
    }  # fmt: skip
    assert result.exit_code == 1
    assert result.stderr == (
        f"endcap: 3 of 6 images failed, first {pictures / 'c.jpg'} "
        "(corrupt_image: image 0 is not a JPEG)\n"
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_slow_answer_is_a_timeout(urls: dict[str, str], pictures: Path, protocol: str) -> None:
    (pictures / "s.jpg").write_bytes(b"S")
    arguments = ["--timeout", "0.5", "--json", "--url", f"{protocol}://{urls[protocol]}"]
    result = endcap("infer", pictures / "s.jpg", *arguments)
    (row,) = json.loads(result.stdout)
    assert row["status"] == "timeout", row
    assert result.exit_code == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_many_images_are_answered_in_order(urls: dict[str, str], protocol: Any) -> None:
    images = [b"\xff" * (1 + size) for size in range(200)]
    answered: list[ImageResult] = []
    with DetectionClient(urls[protocol], protocol=protocol, concurrency=8) as client:
        results = client.detect(images, on_result=answered.append)
    assert [result.detections[0].index for result in results] == list(range(1, 201))
    assert sorted(map(id, answered)) == sorted(map(id, results))


def test_the_table_shows_labels_scores_and_boxes(urls: dict[str, str], pictures: Path) -> None:
    (pictures / "e.jpg").write_bytes(b"E")
    (pictures / "f.jpg").write_bytes(b"C")
    result = endcap("infer", pictures, "--url", urls["grpc"])
    for part in ("square", "class 7", "0.750", "8.0     8.0    40.0    32.0", "nothing found"):
        assert part in result.stdout
    assert "corrupt_image" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_labels_of_a_file_replace_the_servers(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    names = tmp_path / "labels.txt"
    names.write_text("zero\none\n")
    arguments = ["--url", urls["grpc"], "--labels", names, "--json"]
    (row,) = json.loads(endcap("infer", pictures / "b.jpg", *arguments).stdout)
    assert [each["label"] for each in row["detections"]] == ["one", None]


def test_pictures_are_drawn(urls: dict[str, str], pictures: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn" / "here"
    (pictures / "c.jpg").write_bytes(b"C")
    result = endcap("infer", pictures, "--url", urls["grpc"], "--draw", drawn)
    assert result.exit_code == 1
    assert sorted(path.name for path in drawn.iterdir()) == [
        "a_detections.jpg", "b_detections.jpg"
    ]  # fmt: skip
    with Image.open(drawn / "b_detections.jpg") as picture:
        assert picture.size == (64, 48)
        assert picture.convert("RGB").getpixel((20, 31)) != (90, 90, 90)


def test_pictures_of_equal_names_do_not_replace_each_other(pictures: Path, tmp_path: Path) -> None:
    found = [Detection((1.0, 1.0, 9.0, 9.0), 0.5, 0, "ring", 0)]
    results = [ImageResult(str(pictures / "b.jpg"), "ok", found)] * 3
    written = write_pictures(results, tmp_path, None)
    assert [path.name for path in written] == [
        "b_detections.jpg", "b_2_detections.jpg", "b_3_detections.jpg"
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unknown_model_is_one_sentence(
    urls: dict[str, str], pictures: Path, protocol: str
) -> None:
    url = f"{protocol}://{urls[protocol]}"
    result = endcap("infer", pictures, "--url", url, "--model", "nothing")
    assert_one_sentence(result, f"{url} has no model 'nothing' that is ready", "--model")
