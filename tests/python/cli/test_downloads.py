"""endcap infer and load with images at http:// and https:// addresses, over real connections."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runs import assert_error_message, endcap, model_server, write_pictures
from PIL import Image
from raw_responses import RawServer, always, raw_server, whole

from endcap.cli import downloads
from endcap.cli.downloads import download, file_name
from endcap.client.errors import RequestError

CERTIFICATES = Path(__file__).resolve().parents[2] / "data" / "tls"  # see make.sh there
LIMIT = downloads.MAX_BYTES


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with model_server(tmp_path_factory.mktemp("models")) as urls:
        yield urls["grpc"]


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("files") / "pictures") / "b.jpg"


class PhotoServer(http.server.ThreadingHTTPServer):
    """Serves one photo below every path, but for those that are named here."""

    photo = b""
    agents: list[str]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.agents = []
        self.base = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PhotoServer

    def do_GET(self) -> None:
        self.server.agents.append(self.headers["User-Agent"])
        path = self.path
        if path.startswith("/status/"):
            self._send(int(path[8:]), "text/html", b"<html>no</html>")
        elif path.startswith("/page"):
            self._send(200, "text/html; charset=utf-8", b"<html>a page</html>")
        elif path.startswith("/clip"):
            self._send(200, "video/mp4", b"\0\0\0\x20ftypisom")
        elif path == "/empty":
            self._send(200, "image/jpeg", b"")
        elif path.startswith("/to/"):
            self._send(302, "text/plain", b"moved", path[4:])
        elif path.startswith("/turns/"):
            left = int(path[7:])
            self._send(301, "text/plain", b"", f"/turns/{left - 1}" if left else "/end.jpg")
        else:
            self._send(200, "image/jpeg", self.server.photo)

    def _send(self, status: int, kind: str, body: bytes, location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def serving(server: PhotoServer) -> Iterator[PhotoServer]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def web(photo: Path) -> Iterator[PhotoServer]:
    server = PhotoServer()
    server.photo = photo.read_bytes()
    with serving(server):
        yield server


@pytest.fixture
def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def fetch(url: str, folder: Path, timeout_s: float = 5.0) -> bytes | RequestError:
    target = folder / "1" / "file"
    failures = download({url: target}, timeout_s=timeout_s, on_end=lambda: None)
    return failures[url] if failures else target.read_bytes()


def failure(url: str, folder: Path, timeout_s: float = 5.0) -> tuple[str, str]:
    error = fetch(url, folder, timeout_s)
    assert isinstance(error, RequestError)
    return error.status_name, str(error)


def test_addresses_beside_files(url: str, web: PhotoServer, photo: Path, tmp_path: Path) -> None:
    first, missing = f"{web.base}/a.jpg?size=1&x=%20y", f"{web.base}/status/404"
    images = [first, str(photo), missing, first]
    result = endcap("infer", *images, "--url", url, "--json", "--draw", tmp_path / "drawn")
    assert result.exit_code == 1, result.output
    rows = json.loads(result.stdout)
    assert [row["image"] for row in rows] == images
    assert [row["status"] for row in rows] == ["ok", "ok", "unreadable", "ok"]
    assert rows[0]["detections"] == rows[1]["detections"] == rows[3]["detections"] != []
    assert rows[2]["error"] == "HTTP status 404: Not Found"
    assert f"1 of 4 images failed, first {missing} (unreadable: HTTP status 404" in result.stderr
    drawn = sorted(path.name for path in (tmp_path / "drawn").iterdir())
    assert drawn == ["a_detections.jpg", "b_detections.jpg"]
    with Image.open(tmp_path / "drawn" / "a_detections.jpg") as picture:
        assert picture.size == (640, 480)
    assert web.agents[0].startswith("endcap/")


def test_coco_has_the_size_of_a_downloaded_image(url: str, web: PhotoServer) -> None:
    result = endcap("infer", f"{web.base}/a.jpg", "--url", url, "--coco")
    (image,) = json.loads(result.stdout)["images"]
    assert (image["file_name"], image["width"], image["height"]) == (f"{web.base}/a.jpg", 640, 480)


def test_many_addresses_are_in_order(url: str, web: PhotoServer) -> None:
    images = [f"{web.base}/{'status/404' if n % 7 == 3 else f'{n}.jpg'}?{n}" for n in range(30)]
    images = [image.replace("status/404?", "status/404#") for image in images]
    result = endcap("infer", *images, "--url", url, "--csv")
    rows = [line.split(",") for line in result.stdout.splitlines()[1:]]
    assert [*dict.fromkeys(row[0] for row in rows)] == images
    failed = [image for image in images if "404" in image]
    assert [row[0] for row in rows if row[1] == "unreadable"] == failed


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/status/404", "unreadable", "HTTP status 404: Not Found"),
        ("/status/503", "unreadable", "HTTP status 503: Service Unavailable"),
        ("/page.jpg", "unsupported", "has text/html, not an image"),
        ("/clip.mp4", "unsupported", "a video is read by `endcap infer` alone"),
        ("/turns/6", "unreadable", "HTTP status 301"),
        ("/to/ftp://host/a.jpg", "unreadable", "redirects: address 'ftp://host/a.jpg' is not"),
        ("/to/http://u:p@host/a.jpg", "unreadable", "redirects: the address of host holds a user"),
    ],
)
def test_responses_without_an_image(
    web: PhotoServer, tmp_path: Path, path: str, status: str, message: str
) -> None:
    name, text = failure(f"{web.base}{path}", tmp_path)
    assert name == status
    assert message in text


@pytest.mark.parametrize("path", ["/turns/4", "/to//x.jpg", "/to/../x.jpg"])
def test_redirects_are_followed(web: PhotoServer, tmp_path: Path, path: str) -> None:
    assert fetch(f"{web.base}{path}", tmp_path) == web.photo


def test_a_redirect_to_another_server_and_its_path(web: PhotoServer, tmp_path: Path) -> None:
    moved = whole(b"", status="307 Moved", Location=f"{web.base}/ä b.jpg")
    with raw_server(always(moved)) as other:
        assert fetch(f"http://{other.address}/ü%20?q=é#part", tmp_path) == web.photo
        assert other.heads[0].startswith(b"GET /%C3%BC%20?q=%C3%A9 HTTP/1.1\r\n")


def test_a_declared_size_beyond_the_limit_is_not_waited_for(tmp_path: Path) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {LIMIT + 1}\r\n\r\n".encode()
    with raw_server(always(head)) as server:
        begin = time.monotonic()
        name, text = failure(f"http://{server.address}/a.jpg", tmp_path, 60)
        assert time.monotonic() - begin < 30
    assert name == "image_limit"
    assert text.startswith("larger than 64 MiB")


def test_a_response_without_end_is_cut_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "MAX_BYTES", 1 << 20)

    def endless(wire: socket.socket, _: int) -> None:
        wire.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                wire.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")

    with raw_server(endless) as server:
        name, text = failure(f"http://{server.address}/a.jpg", tmp_path)
    assert name == "image_limit"
    assert "larger than 1 MiB" in text


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1"])
def test_a_server_that_stops_sending_is_a_timeout(tmp_path: Path, begun: bytes) -> None:
    with raw_server(always(begun)) as server:
        name, text = failure(f"http://{server.address}/a.jpg", tmp_path, 0.3)
    assert name == "timeout"
    assert "within 0.3 s" in text


def test_a_server_that_trickles_is_a_timeout(tmp_path: Path) -> None:
    def trickle(wire: socket.socket, _: int) -> None:
        wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(100):
                wire.sendall(b"x")
                time.sleep(0.05)

    with raw_server(trickle) as server:
        assert failure(f"http://{server.address}/a.jpg", tmp_path, 0.5)[0] == "timeout"


def test_connections_that_fail_are_told_apart(tmp_path: Path, free_port: int) -> None:
    name, text = failure(f"http://127.0.0.1:{free_port}/a.jpg", tmp_path)
    assert name == "unreadable"
    assert "Connection refused" in text
    with raw_server(always(b"SSH-2.0-none\r\n\r\n")) as server:
        _, text = failure(f"http://{server.address}/a.jpg", tmp_path)
        assert "BadStatusLine: SSH-2.0-none" in text

    def cut(wire: socket.socket, _: int) -> None:
        wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1")
        wire.shutdown(socket.SHUT_RDWR)

    with raw_server(cut) as server:
        _, text = failure(f"http://{server.address}/a.jpg", tmp_path)
        assert "the connection ended before the whole response" in text
    assert not list(tmp_path.rglob("file")), "no partial file is left"


@pytest.fixture
def secure(photo: Path) -> Iterator[PhotoServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem", CERTIFICATES / "server.key")
    server = PhotoServer()
    server.photo = photo.read_bytes()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.base = server.base.replace("http:", "https:")
    with serving(server):
        yield server


def test_tls(secure: PhotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, text = failure(f"{secure.base}/a.jpg", tmp_path)
    assert name == "unreadable"
    assert "certificate verify failed" in text
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "ca.pem"))
    assert fetch(f"{secure.base}/a.jpg", tmp_path) == secure.photo
    name, text = failure(f"{secure.base}/to/http://127.0.0.1:1/a.jpg", tmp_path)
    assert "redirects from https to http://127.0.0.1:1/a.jpg, without TLS" in text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/photo.jpg", "photo.jpg"),
        ("/a/photo.jpg/", "photo.jpg"),
        ("", "image"),
        ("/", "image"),
        ("/..", "image"),
        ("/a/%2e%2e", "image"),
        ("/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "_.._etc_passwd"),
        ("/a%00b%0ac%1b[31m.jpg", "a_b_c_[31m.jpg"),
        ("/%E2%80%AEgpj.exe", "_gpj.exe"),
        ("/.hidden", "hidden"),
        ("/b%C3%A4r.png?x=/../y", "bär.png"),
        ("/%ff%fe.jpg", "\ufffd\ufffd.jpg"),
        (f"/{'a' * 5000}.jpg", f"{'a' * 96}.jpg"),
        (f"/a.{'b' * 5000}", f"a.{'b' * 98}"),
        (f"/{'%C3%A4' * 5000}.jpg", f"{'ä' * 48}.jpg"),
    ],
)
def test_names_of_files(path: str, name: str, tmp_path: Path) -> None:
    assert file_name(f"http://host{path}") == name
    (tmp_path / name).touch(exist_ok=False)
    assert (tmp_path / name).parent.samefile(tmp_path)


def test_pictures_of_odd_and_equal_names(url: str, web: PhotoServer, tmp_path: Path) -> None:
    paths = ["/x/a.jpg", "/y/a.jpg", "/%2e%2e%2fa.jpg", "/", f"/{'a' * 5000}.jpg", "/%0a%1bb.jpg"]
    images = [f"{web.base}{path}" for path in paths]
    result = endcap("infer", *images, "--url", url, "--draw", tmp_path / "drawn", "--json")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.glob("**/*") if path.is_file()) == sorted(
        f"{stem}_detections.jpg" for stem in ("a", "a_2", "_a", "image", "a" * 96, "__b")
    )


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://", "is not http://HOST/PATH"),
        ("http:///a.jpg", "is not http://HOST/PATH"),
        ("https://host:port/a.jpg", "port"),
        ("https://host:99999/a.jpg", "Port out of range"),
        ("https://user:secret@host/a.jpg", "the address of host holds a user name or password"),
        ("ftp://host/a.jpg", "has the scheme ftp; of addresses http:// and https:// are read"),
        ("s3://bucket/a.jpg", "has the scheme s3"),
        ("file:///tmp/a.jpg", "give the path /tmp/a.jpg"),
    ],
)
def test_addresses_that_are_none(address: str, message: str) -> None:
    result = endcap("infer", address, "--url", "127.0.0.1:1")
    assert_error_message(result, message)
    assert "secret" not in result.stderr


def test_nothing_is_downloaded_without_a_server(web: PhotoServer) -> None:
    before = len(web.agents)
    result = endcap("infer", f"{web.base}/a.jpg", "--url", "127.0.0.1:1")
    assert_error_message(result, "no Triton server responds")
    assert len(web.agents) == before


def test_load_takes_addresses(url: str, web: PhotoServer) -> None:
    options = ["--url", url, "--duration", "0.2", "--warmup", "0", "--concurrency", "1", "--json"]
    result = endcap("load", f"{web.base}/a.jpg", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["levels"][0]["images_per_s"] > 0
    missing = f"{web.base}/status/404"
    result = endcap("load", missing, *options)
    assert_error_message(result, f"image {missing} cannot be downloaded (HTTP status 404")


def test_an_interrupted_download_leaves_nothing(url: str, tmp_path: Path) -> None:
    with raw_server(always(b"")) as silent:
        arguments = ["infer", f"http://{silent.address}/a.jpg", "--url", url, "--timeout", "60"]
        program = subprocess.Popen(
            [sys.executable, "-m", "endcap", *arguments],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stderr=subprocess.PIPE,
        )
        wait_for_request(silent)
        begin = time.monotonic()
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=30)
        assert time.monotonic() - begin < 10
    assert program.returncode == 130, errors
    assert not list(tmp_path.glob("endcap-*"))


def wait_for_request(server: RawServer) -> None:
    end = time.monotonic() + 60
    while not server.requests:
        assert time.monotonic() < end
        time.sleep(0.02)
