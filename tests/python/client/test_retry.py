"""Errors of servers by gRPC and HTTP, and which of them are retried when."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from tritonclient.http._utils import _get_error

from endcap.client import errors
from endcap.client.connection import FIRST_WAIT_S, MAX_WAIT_S, choose_retry_wait
from endcap.client.errors import RequestError, from_grpc, from_message, from_os_error


def from_http(status: int, body: bytes | str) -> RequestError:
    """Return the error of a response, as tritonclient reads it; a text is Triton's JSON."""

    class Response:
        status_code = status

        def read(self) -> bytes:
            return body if isinstance(body, bytes) else json.dumps({"error": body}).encode()

    return errors.from_http(_get_error(Response()))


GRPC_RESTRICTED = "This protocol is restricted, expecting header 'a'"
QUEUE = "Exceeds maximum queue size"
STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"
REQUESTS_WAIT = "43 ms of work wait before this request, and max_queue_cost is 40 ms; retry after"
OVERLOADED = f"unavailable: {REQUESTS_WAIT} 1500 ms"
TOO_LATE = "unavailable: the response would take 35 ms, and the request's timeout is 20 ms"


@pytest.mark.parametrize(
    ("error", "status", "transient", "retry_after_s"),
    [
        (from_grpc("INVALID_ARGUMENT", "no such input"), "invalid_argument", False, None),
        (from_grpc("NOT_FOUND", "Request for unknown model: 'x'"), "unavailable", False, None),
        (from_grpc("INTERNAL", "failed"), "internal", False, None),
        (from_grpc("UNAVAILABLE", GRPC_RESTRICTED), "unsupported", False, None),
        (from_grpc("UNAVAILABLE", f"in ensemble 'd', {QUEUE}"), "unavailable", True, None),
        (from_grpc("UNAVAILABLE", "failed to connect to all"), "unavailable", True, None),
        (from_grpc("UNAVAILABLE", "Stream removed (Socket closed)"), "unavailable", True, None),
        (from_grpc("CANCELLED", "CANCELLED"), "unavailable", True, None),  # by a stopping server
        (from_http(400, "no such input"), "invalid_argument", False, None),
        (from_http(403, "This API is restricted, expecting"), "unsupported", False, None),
        (from_http(404, b""), "unavailable", False, None),
        (from_http(429, b""), "unavailable", False, None),
        (from_http(500, b""), "internal", False, None),
        (from_http(503, QUEUE), "unavailable", True, None),
        (from_http(503, b"upstream connect error or disconnect"), "unavailable", True, None),
        (from_message(QUEUE), "internal", False, None),
        (from_os_error(OSError(113, "No route to host")), "unavailable", False, None),
        (from_os_error(ConnectionRefusedError(111, "refused")), "unavailable", True, None),
        (from_os_error(OSError(104, "Connection reset")), "unavailable", True, None),
        # A server that stops.
        (from_grpc("INTERNAL", f"in ensemble 'd', {STOPPING}"), "unavailable", True, None),
        (from_grpc("NOT_FOUND", "'d' has no available versions"), "unavailable", True, None),
        (from_http(400, "'d' version 1 is not at ready state"), "unavailable", True, None),
        (from_message(STOPPING), "unavailable", True, None),
        (from_message("unknown model: 'd' is not found"), "internal", False, None),
        (from_message("internal: Server is stopping"), "internal", False, None),
        # An overloaded server, by itself, in an ensemble, in a cascade, in a stream.
        (from_grpc("UNAVAILABLE", OVERLOADED), "unavailable", True, 1.5),
        (from_grpc("UNAVAILABLE", f"in ensemble 'd', {OVERLOADED}"), "unavailable", True, 1.5),
        (from_grpc("UNAVAILABLE", f"model 'p': {OVERLOADED}"), "unavailable", True, 1.5),
        (from_http(503, OVERLOADED), "unavailable", True, 1.5),
        (from_message(OVERLOADED), "unavailable", True, 1.5),
        (from_grpc("UNAVAILABLE", f"{TOO_LATE}; retry after 5 ms"), "unavailable", True, 0.005),
        # Other messages without the hint.
        (from_grpc("UNAVAILABLE", f"{QUEUE}; retry after 5 s"), "unavailable", True, None),
        (from_grpc("INVALID_ARGUMENT", "no; retry after 5 ms"), "invalid_argument", False, None),
        (from_grpc("UNAVAILABLE", f"{REQUESTS_WAIT} 99999999999 ms"), "unavailable", True, None),
        # Another attempt would be even later.
        (from_grpc("UNAVAILABLE", TOO_LATE), "unavailable", False, None),
        (from_grpc("UNAVAILABLE", f"in ensemble 'd', {TOO_LATE}"), "unavailable", False, None),
        (from_http(503, TOO_LATE), "unavailable", False, None),
        (
            from_grpc("UNAVAILABLE", "unavailable: the request's timeout ended in the queue"),
            *("unavailable", False, None),
        ),
    ],
)
def test_errors_have_a_status_and_whether_and_when_to_retry(
    error: RequestError, status: str, transient: bool, retry_after_s: float | None
) -> None:
    assert error.status_name == status
    assert error.transient == transient
    assert error.retry_after_s == retry_after_s
    assert (choose_retry_wait(error, 0, 60) is not None) == transient


def test_errors_have_the_servers_message() -> None:
    for region in ("shared memory region", "system shared memory region"):
        assert from_grpc("NOT_FOUND", f"Unable to find {region}: 'a'").region_lost
        assert from_http(404, f"Unable to find {region}: 'a'").region_lost
    assert not from_grpc("NOT_FOUND", "Request for unknown model: 'a' is not found").region_lost
    plain = from_http(502, b"<html>\n Bad   Gateway</html>")
    assert str(plain) == "HTTP status 502: <html> Bad Gateway</html>"
    assert plain.status_name == "internal"
    assert str(from_http(500, b"")) == str(from_http(500, b'["\xff"]')) == "HTTP status 500"
    known = from_http(400, "in ensemble 'd', image_limit: too big")
    assert (known.status_name, str(known)) == ("image_limit", "too big")


def test_an_error_can_be_copied_and_pickled() -> None:
    error = from_grpc("UNAVAILABLE", "Unable to find shared memory region: 'a'")
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert twin is not error
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
        assert twin.region_lost


# --- waits ----------------------------------------------------------------------------------------

BUSY = RequestError("unavailable", "busy", transient=True)


def test_waits_are_spread_and_double_up_to_a_limit() -> None:
    for attempt in range(8):
        limit_s = min(FIRST_WAIT_S * 2**attempt, MAX_WAIT_S)
        waits = [choose_retry_wait(BUSY, attempt, 1000) or 0 for _ in range(500)]
        assert 0 <= min(waits) < 0.05 * limit_s < 0.95 * limit_s < max(waits) <= limit_s


def test_nothing_is_waited_for_beyond_the_deadline() -> None:
    waits = [choose_retry_wait(BUSY, 0, FIRST_WAIT_S / 2) for _ in range(500)]
    assert 150 < waits.count(None) < 350
    assert all(wait is None or wait < FIRST_WAIT_S / 2 for wait in waits)


def test_the_server_may_say_how_long_to_wait_at_least() -> None:
    error = from_message(OVERLOADED)
    waits = [choose_retry_wait(error, 0, 60) or 0 for _ in range(200)]
    assert 1.5 <= min(waits) <= max(waits) <= 1.5 + FIRST_WAIT_S
    assert choose_retry_wait(error, 0, 1.4) is None  # the deadline is before that
