"""endcap infer: options of the connection, and the responses of decoupled models put together."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.cli.options import ServerOptions
from endcap.client import ClassScore, Detection, ImageDetections, ImageResult, Task
from endcap.errors import InvalidArgumentError
from endcap.results import join_responses
from tests.support.cli_runs import assert_error_message, endcap


def test_options_of_the_connection() -> None:
    headers = ["Authorization: Bearer a:b", "x-trace:7", "empty:"]
    server = ServerOptions(timeout=2.5, header=headers, tls_ca=Path(__file__))
    options = server.client_arguments(retries=0).connection
    assert options.headers == {"Authorization": "Bearer a:b", "x-trace": "7", "empty": ""}
    assert (options.timeout_s, options.retries) == (2.5, 0)
    assert options.tls is not None
    assert options.tls.ca == Path(__file__)
    assert ServerOptions().client_arguments().connection.tls is None


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (["no colon"], "NAME:VALUE"),
        ([": value"], "NAME:VALUE"),
        (["X-A:1", "x-b:1", "x-a: 2"], "x-a is given twice"),
    ],
)
def test_headers_that_are_refused(headers: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ServerOptions(header=headers).client_arguments()


def test_a_stream_has_no_batches(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8")
    result = endcap("infer", tmp_path / "a.jpg", "--url", "127.0.0.1:1", "--stream", "--batch", 4)
    assert_error_message(result, "--stream", "--batch 4")


def part(image: str, index: int, *, final: bool, status: str = "ok") -> ImageResult:
    found = [Detection((0.0, 0.0, 1.0, 1.0), 0.5, 0, None, index)] if status == "ok" else []
    return ImageResult(
        image, status, ImageDetections.from_list(found), latency_ms=float(index), final=final
    )


def test_the_responses_to_an_image_become_one_result() -> None:
    parts = [
        part("a", 1, final=False), part("a", 2, final=True), part("b", 3, final=True),
        part("a", 4, final=False), part("a", 5, final=True),  # the same file, given twice
    ]  # fmt: skip
    whole = list(join_responses(parts))
    assert [(each.image, [d.index for d in each.detections]) for each in whole] == [
        ("a", [1, 2]), ("b", [3]), ("a", [4, 5])
    ]  # fmt: skip
    assert whole[0].latency_ms == 2.0  # until the last of them
    assert all(each.final for each in whole)


def test_an_image_of_which_a_response_failed_has_failed() -> None:
    (whole,) = join_responses(
        [part("a", 1, final=False), part("a", 2, final=True, status="internal")]
    )
    assert (whole.status, whole.detections) == ("internal", [])


def test_classes_are_put_together_too() -> None:
    def classes(class_id: int, *, final: bool) -> ImageResult:
        scores = [ClassScore(class_id, 0.5, None)]
        return ImageResult("a", "ok", classes=scores, task=Task.classification, final=final)

    (whole,) = join_responses([classes(1, final=False), classes(2, final=True)])
    assert [each.class_id for each in whole.classes] == [1, 2]


def test_tls_without_its_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8")
    result = endcap("infer", tmp_path / "a.jpg", "--tls-ca", tmp_path / "none.pem")
    assert_error_message(result, "none.pem", "PEM")
