"""The page's server over plain HTTP, against a real Triton server: responses, limits, strangers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bad_jpegs
import jpegs
import pytest
from echo_model import write_model
from page_calls import detect, send_request
from pages import SAMPLE_FILES, result_of, run_client, serve_page
from PIL import Image
from responding_model import CONFIG, MODEL

from endcap.client import DetectionClient
from endcap.drawing.draw import class_color
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.web.application import MAX_BODY_BYTES, BodyLimits

ROTATED = next(path for path in SAMPLE_FILES if "600x800_exif6" in path.name)


@pytest.fixture(scope="module")
def client() -> Iterator[DetectionClient]:
    with run_client() as client:
        yield client


@pytest.fixture(scope="module")
def url(client: DetectionClient) -> Iterator[str]:
    with serve_page(client, samples=SAMPLE_FILES) as server:
        yield server.url


# --- responses ------------------------------------------------------------------------------------


def test_detect_returns_the_result_of_the_client(url: str, client: DetectionClient) -> None:
    response = detect(url, ROTATED.read_bytes())
    expected = result_of(client, ROTATED)
    row = response.json
    assert response.status == 200
    assert row.pop("latency_ms") > 0
    assert (row.pop("width"), row.pop("height")) == (600, 800), "upright"
    colors = {str(d.class_id): class_color(d.class_id) for d in expected.detections}
    assert row.pop("colors") == {k: "#{:02x}{:02x}{:02x}".format(*v) for k, v in colors.items()}
    assert row == {**expected.to_dict(), "image": "photo.jpg"}
    assert len(row["detections"]) >= 3


def test_many_at_once_do_not_mix(url: str, client: DetectionClient) -> None:
    files = SAMPLE_FILES * 3
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda path: detect(url, path.read_bytes()), files))
    expected = {path: result_of(client, path).to_dict()["detections"] for path in SAMPLE_FILES}
    assert [response.json["detections"] for response in responses] == [
        expected[path] for path in files
    ]


@pytest.mark.parametrize("bad", bad_jpegs.bad_files(), ids=str)
def test_an_images_fault_is_422_with_its_class(url: str, bad: bad_jpegs.BadFile) -> None:
    response = detect(url, bad.data)
    assert response.status == 422
    assert response.json["status"] == bad.status.label
    assert response.json["error"]
    assert response.json["detections"] == []


def test_a_server_that_hangs_is_504_and_one_that_is_gone_503(tmp_path: Path) -> None:
    repository = write_model(tmp_path / "models", "detect", CONFIG, MODEL)
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    with (
        TritonServer(repository, ServerSettings(ports=ports)) as triton,
        DetectionClient(triton.grpc_url, timeout_s=0.5) as client,
        serve_page(client) as page,
    ):
        assert detect(page.url, jpegs.photo_jpeg(8, 8)).status == 200
        hanging = detect(page.url, b"S")
        assert (hanging.status, hanging.json["status"]) == (504, "timeout")
        triton.stop()
        gone = detect(page.url, jpegs.photo_jpeg(8, 8))
        assert (gone.status, gone.json["status"]) == (503, "unavailable")
        assert gone.json["error"]


def test_labels_come_with_their_colors(url: str, client: DetectionClient) -> None:
    about = send_request(url, "GET", "/labels").json
    assert about["model"] == "detect"
    assert about["server"] == str(client.address)
    assert about["max_bytes"] == MAX_BODY_BYTES
    assert client.labels
    assert about["labels"] == [
        {"class_id": i, "label": label, "color": "#{:02x}{:02x}{:02x}".format(*class_color(i))}
        for i, label in enumerate(client.labels)
    ]


def test_samples_are_the_files(client: DetectionClient, tmp_path: Path) -> None:
    odd = tmp_path / 'a "b" ä?#%.jpg'
    odd.write_bytes(ROTATED.read_bytes())
    gone = tmp_path / "gone.jpg"
    with serve_page(client, samples=[ROTATED, ROTATED, odd, gone]) as server:
        names = send_request(server.url, "GET", "/samples").json
        assert names == [ROTATED.name, f"{ROTATED.stem}_2.jpg", odd.name, "gone.jpg"]
        responses = [
            send_request(server.url, "GET", f"/samples/{urllib.parse.quote(n)}") for n in names
        ]
    assert [response.status for response in responses] == [200, 200, 200, 404]
    assert {response.body for response in responses[:3]} == {ROTATED.read_bytes()}
    assert responses[0].headers["Content-Type"] == "image/jpeg"
    assert responses[3].json["error"] == (
        "the sample gone.jpg cannot be read: No such file or directory"
    )


def test_a_sample_that_leads_to_no_image_is_not_served(
    client: DetectionClient, tmp_path: Path
) -> None:
    (tmp_path / "id_rsa").write_text("-----BEGIN OPENSSH PRIVATE KEY-----")
    link, drawing = tmp_path / "cat.jpg", tmp_path / "drawing.png"
    link.symlink_to(tmp_path / "id_rsa")
    Image.new("RGB", (4, 4)).save(drawing)
    with serve_page(client, samples=[link, drawing]) as server:
        responses = [send_request(server.url, "GET", f"/samples/{p.name}") for p in (link, drawing)]
    assert responses[0].status == 404
    assert responses[0].json["error"] == "the sample cat.jpg cannot be read: it is no image"
    assert responses[1].headers["Content-Type"] == "image/png"
    assert responses[1].body == drawing.read_bytes()


def test_a_sample_that_is_replaced_leads_nowhere_else(
    client: DetectionClient, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    samples = [tmp_path / f"{name}.jpg" for name in ("link", "pipe", "folder", "large", "linked")]
    for sample in samples[:-1]:
        sample.write_bytes(b"picture")
    samples[-1].symlink_to(ROTATED)
    limits = BodyLimits(max_bytes=ROTATED.stat().st_size)
    with serve_page(client, samples=samples, limits=limits) as server:
        for sample in samples[:3]:
            sample.unlink()
        samples[0].symlink_to(secret)
        os.mkfifo(samples[1])
        samples[2].mkdir()
        samples[3].write_bytes(bytes(limits.max_bytes + 1))
        responses = [
            send_request(server.url, "GET", f"/samples/{sample.name}") for sample in samples
        ]
    assert [response.status for response in responses] == [404, 404, 404, 404, 200]
    assert "no regular file" in responses[1].json["error"]
    assert f"more than {limits.max_bytes} bytes" in responses[3].json["error"]
    assert responses[4].body == ROTATED.read_bytes()


@pytest.mark.parametrize("path", ["/no.js", "/samples/no.jpg", "/samples/..%2fapp.js", "/..%2fx"])
def test_nothing_else_is_served(url: str, path: str) -> None:
    response = send_request(url, "GET", path)
    assert response.status == 404
    assert "the page is at /" in response.json["error"]


def test_a_wrong_method_gets_the_right_one(url: str) -> None:
    response = send_request(url, "PUT", "/detect")
    assert response.status == 405
    assert response.headers["Allow"] == "POST"
    assert response.json["error"] == "/detect does not take PUT; use POST"


# --- limits and strangers -------------------------------------------------------------------------


def test_a_body_over_the_limit_is_413_before_it_is_read(url: str) -> None:
    address = urllib.parse.urlsplit(url)
    head = (
        f"POST /detect HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: image/jpeg\r\n"
        f"Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(head.encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        row = json.loads(response.read())
    assert response.status == 413
    assert row["status"] == "image_limit"
    assert f"more than {MAX_BODY_BYTES} bytes" in row["error"]


def test_the_limit_is_exact_and_holds_for_a_body_of_unknown_length(
    client: DetectionClient,
) -> None:
    content = jpegs.photo_jpeg(32, 32)
    with serve_page(client, limits=BodyLimits(max_bytes=len(content))) as server:
        assert detect(server.url, content).status == 200
        assert detect(server.url, content + b"\0").status == 413
        chunked = detect(server.url, iter([content, b"\0"]))
        assert chunked.status == 413
        assert "send a smaller one" in chunked.json["error"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_another_site_could_send_unasked_is_415(url: str, content_type: str) -> None:
    response = send_request(
        url, "POST", "/detect", ROTATED.read_bytes(), {"Content-Type": content_type}
    )
    assert response.status == 415
    assert "send the file with image/jpeg or application/octet-stream" in response.json["error"]


def test_a_body_without_a_content_type_is_415(url: str) -> None:
    response = send_request(url, "POST", "/detect", b"")
    assert response.status == 415


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:1", "[::1]:8080"]
)
def test_names_of_this_machine_are_served(url: str, host: str) -> None:
    assert send_request(url, "GET", "/", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "127.0.0.1.example.org",
        "localhost.example.org:80",
        "10.0.0.1",
        "",
        "[::1",
        "@",
        "localhost#.example.org",
        "localhost/.example.org",
        "localhost?.example.org",
        "localhost\\.example.org",
        "example.org@127.0.0.1",
        "localhost:http",
        "localhost:",
    ],
)
@pytest.mark.parametrize("path", ["/", "/labels", "/samples", "/app.js", "/nothing"])
def test_other_names_are_403(url: str, host: str, path: str) -> None:
    response = send_request(url, "GET", path, headers={"Host": host})
    assert response.status == 403
    assert "open the page at 127.0.0.1 or ::1 or localhost" in response.json["error"]


def test_a_host_that_was_given_is_served_and_of_every_address_only_numbers(
    client: DetectionClient,
) -> None:
    def status(server_url: str, host: str) -> int:
        return send_request(server_url, "GET", "/", headers={"Host": host}).status

    with serve_page(client, host="Box.lan") as server:
        assert status(server.url, "box.lan:8080") == 200
        assert status(server.url, "192.0.2.7") == 403
    with serve_page(client, host="0.0.0.0") as server:
        assert status(server.url, "192.0.2.7:8080") == 200
        assert status(server.url, "[2001:db8::7]") == 200
        assert status(server.url, "box.lan") == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://example.org",
        "null",
        "",
        "http://[",
        "http://localhost",
        "chrome-extension://OWN",
        "http://example.org@OWN",
        "http://OWN/",
        "//OWN",
    ],
)
def test_scripts_of_other_sites_are_403(url: str, origin: str) -> None:
    own = urllib.parse.urlsplit(url).netloc
    response = detect(url, ROTATED.read_bytes(), Origin=origin.replace("OWN", own))
    assert response.status == 403
    assert "use this server's own page" in response.json["error"]
    assert detect(url, ROTATED.read_bytes(), Origin=f"http://{own}").status == 200


@pytest.mark.parametrize("name", ["Host", "Origin"])
def test_a_second_host_or_origin_counts_as_well(url: str, name: str) -> None:
    own = urllib.parse.urlsplit(url).netloc
    given = {"Host": [own], "Origin": [f"http://{own}"]}
    given[name].append("http://example.org" if name == "Origin" else "example.org")
    with contextlib.closing(http.client.HTTPConnection(own, timeout=30)) as connection:
        connection.putrequest("GET", "/labels", skip_host=True)
        for header, values in given.items():
            for value in values:
                connection.putheader(header, value)
        connection.endheaders()
        assert connection.getresponse().status in (400, 403)


def test_every_response_has_the_security_headers(url: str) -> None:
    responses = [
        send_request(url, "GET", "/"),
        send_request(url, "GET", "/app.js"),
        send_request(url, "GET", "/nothing"),
        send_request(url, "OPTIONS", "/detect", headers={"Origin": url.rstrip("/")}),
        send_request(url, "GET", "/", headers={"Host": "example.org"}),
        detect(url, b"no picture"),
        detect(url, ROTATED.read_bytes()),
    ]
    assert [each.status for each in responses] == [200, 200, 404, 405, 403, 422, 200]
    for each in responses:
        policy = each.headers["Content-Security-Policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'"} <= set(policy)
        assert "img-src 'self' blob: data:" in policy
        assert each.headers["X-Content-Type-Options"] == "nosniff"
        assert not [name for name in each.headers if name.lower().startswith("access-control")]
