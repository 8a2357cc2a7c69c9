"""Names from files and servers that would do harm: links in their place, orders to terminals."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from rich.table import Table

from endcap.cli.console import PlainConsole
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.process import ServerProcess
from tests.support import family_networks as families
from tests.support.cli_runs import endcap
from tests.support.echo_model import write_model
from tests.support.init_runs import init
from tests.support.responding_model import CONFIG, MODEL

# Sets a terminal's title, clears it, and the same in one character of Latin-1.
ORDERS = "\x1b]0;owned\x07\x1b[2J\x9b2J"
HOSTILE = f"a{ORDERS}b"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose class names hold orders."""
    label = HOSTILE.replace("\x1b", "\\033").replace("\x07", "\\007").replace("\x9b", "\\302\\233")
    config = CONFIG.replace("circle, square", f"circle, {label}")
    repository = write_model(tmp_path_factory.mktemp("models"), "detect", config, MODEL)
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    with TritonServer(repository, ServerSettings(ports=ports)) as server:
        yield server.grpc_url


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text("mine")
    return file


# --- links ----------------------------------------------------------------------------------------


def test_no_picture_is_written_through_a_link(
    url: str, pictures: Path, tmp_path: Path, victim: Path
) -> None:
    drawn = tmp_path / "drawn"
    drawn.mkdir()
    (drawn / "b_detections.jpg").symlink_to(victim)
    done = endcap("infer", pictures, "--url", url, "--draw", drawn, columns=200)
    assert done.exit_code == 2
    assert f"{drawn / 'b_detections.jpg'} is a symbolic link" in done.stderr
    assert victim.read_text() == "mine"
    assert (drawn / "b_detections.jpg").is_symlink()


def test_a_demo_writes_through_no_link(
    url: str, pictures: Path, tmp_path: Path, victim: Path
) -> None:
    name, output = "server.log", tmp_path / "output"
    output.mkdir()
    (output / name).symlink_to(victim)
    done = endcap("demo", "--images", pictures, "--output", output, "--url", url, columns=200)
    assert done.exit_code == 2
    assert f"{name} is a symbolic link" in done.stderr
    assert victim.read_text() == "mine"


def test_pictures_replace_only_those_that_endcap_has_drawn(
    url: str, pictures: Path, tmp_path: Path
) -> None:
    arguments = ["infer", pictures / "b.jpg", "--url", url, "--draw", tmp_path / "drawn"]
    for _ in range(2):
        assert endcap(*arguments).exit_code == 0
    drawn = tmp_path / "drawn" / "b_detections.jpg"
    drawn.write_bytes((pictures / "b.jpg").read_bytes())  # the user's own, of that name
    done = endcap(*arguments, columns=200)
    assert done.exit_code == 2
    assert f"{drawn} exists and was not created by endcap; move it away" in done.stderr
    assert drawn.read_bytes() == (pictures / "b.jpg").read_bytes()


# --- orders to terminals --------------------------------------------------------------------------


def assert_plain(text: str) -> None:
    assert "owned" in text, "the name is not shown at all"
    assert not {"\x1b", "\x07", "\x9b"} & set(text)


@pytest.fixture
def hostile_pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "hostile"
    folder.mkdir()
    Image.new("RGB", (64, 48)).save(folder / f"{HOSTILE}.jpg")
    (folder / f"{HOSTILE}_bad.jpg").write_bytes(b"C")
    return folder


def test_tables_of_images_and_classes(url: str, hostile_pictures: Path, tmp_path: Path) -> None:
    done = endcap("infer", hostile_pictures, "--url", url, "--draw", tmp_path / f"d{ORDERS}")
    assert_plain(done.stdout)
    assert_plain(done.stderr)


def test_csv_is_escaped_on_a_terminal_and_nowhere_else(url: str, hostile_pictures: Path) -> None:
    command = [sys.executable, "-m", "endcap", "infer", str(hostile_pictures)]
    command += ["--url", url, "--csv"]
    plain = subprocess.run(command, capture_output=True, check=False).stdout.decode()
    assert HOSTILE in plain
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL) as process:
        os.close(slave)
        shown = b""
        while part := read_terminal(master):
            shown += part
        process.wait()
    os.close(master)
    assert_plain(shown.decode())


def read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the end of a terminal
        return b""


def test_a_network_s_names(tmp_path: Path) -> None:
    folder = tmp_path / f"f{ORDERS}"
    folder.mkdir()
    network = families.yolov8()
    done = init(network.write(folder / f"{HOSTILE}.onnx"))
    assert done.exit_code == 0, done.stderr
    assert_plain(done.stdout)


def test_a_repository_s_names(tmp_path: Path) -> None:
    folder = tmp_path / "models" / f"m{ORDERS}"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(f'name: "{HOSTILE}"\nbackend: "none{ORDERS}"\n')
    done = endcap("validate", tmp_path / "models")
    assert done.exit_code != 0
    assert_plain(done.stdout)


def test_a_server_s_log_on_a_terminal(tmp_path: Path) -> None:
    os.mkfifo(output := tmp_path / "output")
    log_file, terminal = io.BytesIO(), io.BytesIO()
    process = ServerProcess(
        ["cat", str(output)], os.environ, tmp_path, log_file=log_file, terminal=terminal
    )
    process.show_problems()
    line = f"E0102 10:00:00.0 1 x.cc:1] {HOSTILE}\tä\n".encode()
    output.write_bytes(line)
    while process.exit_code() is None:
        time.sleep(0.01)
    process.stop(10)
    assert log_file.getvalue() == line
    assert_plain(terminal.getvalue().decode())
    assert terminal.getvalue().decode().endswith("b\tä\n")


def test_cells_keep_their_styles_and_lose_orders() -> None:
    stream = io.StringIO()
    console = PlainConsole(file=stream, force_terminal=True, color_system="standard", width=60)
    table = Table.grid()
    table.add_row(f"[bold]{HOSTILE}[/]")
    console.print(table)
    shown = stream.getvalue()
    assert "\x1b[1m" in shown
    assert "\x1b]0" not in shown
    assert "\\x1b]0;owned" in shown
