"""Where packages come from: what an archive must not tell of it, and what must not lead astray."""

from __future__ import annotations

import base64
import contextlib
import tarfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from endcap._python_process import environment_for_pip
from tests.support.packed_environments import Workshop, workshop

PASSWORD = "a-secret-password"
TOKEN = "tk-a-secret-token"
SHADOWED = ("contextlib", "endcap", "json", "pip", "rattler", "runpy", "ssl", "tempfile")
LEADING_ELSEWHERE = "[global]\nrequire-virtualenv = true\n[install]\nuser = true\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with workshop(tmp_path_factory.mktemp("workshop")) as made:
        yield made


class ChannelServer(ThreadingHTTPServer):
    """Serves a folder at /t/TOKEN/channel to whoever knows the password."""

    def __init__(self, channel: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Channel)
        self.channel = channel
        self.requests = 0
        self.command_lines: set[str] = set()

    @property
    def address(self) -> str:
        return f"http://user:{PASSWORD}@127.0.0.1:{self.server_port}/t/{TOKEN}/channel"


class _Channel(SimpleHTTPRequestHandler):
    server: ChannelServer

    def translate_path(self, path: str) -> str:
        return str(self.server.channel / path.removeprefix(f"/t/{TOKEN}/channel/"))

    def do_GET(self) -> None:
        self.server.requests += 1
        self.server.command_lines |= command_lines()
        known = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
        if self.headers["Authorization"] == f"Basic {known}":
            super().do_GET()
        else:
            self.send_error(401)

    def log_message(self, *arguments: object) -> None:
        """A test prints nothing."""


def command_lines() -> set[str]:
    """What every user sees of all processes."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # the process has ended
            found.add(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.fixture(scope="module")
def channel_server(shop: Workshop) -> Iterator[ChannelServer]:
    with ChannelServer(shop.channel) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def contents(
    shop: Workshop, channel_server: ChannelServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """The files of an archive, by their paths.

    It is packed from a channel with a password, in a folder of modules that do not work, and with
    settings of pip that lead elsewhere.
    """
    folder = tmp_path_factory.mktemp("packed")
    for name in SHADOWED:
        (folder / f"{name}.py").write_text("1 / 0")
    (folder / "pip.conf").write_text(LEADING_ELSEWHERE)
    archive = folder / "env.tar.gz"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PIP_CONFIG_FILE", str(folder / "pip.conf"))
        result = shop.pack("-o", archive, channel=channel_server.address)
    assert result.exit_code == 0, result.output
    with tarfile.open(archive) as content:
        files = [member for member in content if member.isfile()]
        return {each.name: content.extractfile(each).read() for each in files}  # type: ignore[union-attr]


def test_passwords_and_tokens_of_a_channel_stay_out_of_the_archive(
    contents: dict[str, bytes], channel_server: ChannelServer
) -> None:
    records = [content for path, content in contents.items() if path.startswith("conda-meta/")]
    assert any(b"127.0.0.1:%d/channel" % channel_server.server_port in each for each in records)
    for secret in (PASSWORD.encode(), TOKEN.encode()):
        assert [path for path, content in contents.items() if secret in content] == []


def test_an_archive_does_not_tell_where_wheels_lay(
    contents: dict[str, bytes], shop: Workshop
) -> None:
    folder = str(shop.wheel.parent).encode()
    assert [path for path, content in contents.items() if folder in content] == []


@pytest.mark.usefixtures("contents")
def test_other_users_of_the_machine_see_no_secret(channel_server: ChannelServer) -> None:
    assert channel_server.requests
    assert any("endcap.environment.conda" in line for line in channel_server.command_lines)
    assert not any(PASSWORD in line or TOKEN in line for line in channel_server.command_lines)


def test_pip_installs_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", "9")
    monkeypatch.setenv("PIP_TARGET", "/nowhere/target")
    monkeypatch.setenv("PYTHONPATH", "/nowhere/modules")
    found = environment_for_pip()
    assert (found["PIP_TIMEOUT"], found["PIP_USER"]) == ("9", "0")
    assert not {"PYTHONPATH", "PIP_TARGET"} & {*found}


def test_an_environment_is_made_whatever_surrounds_it(contents: dict[str, bytes]) -> None:
    assert any(path.endswith("/site-packages/endcap/nms.py") for path in contents)
