"""Retries: their number, their waits, and errors without a retry."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from tritonclient.http._utils import _get_error

from endcap.client import errors
from endcap.client.connection import FIRST_WAIT_S, MAX_WAIT_S, choose_retry_wait
from endcap.client.errors import (
    RequestError,
    from_grpc,
    from_message,
    from_os_error,
)


def from_http(status: int, body: bytes) -> RequestError:
    """Return the error of a response, as tritonclient reads it."""

    class Response:
        status_code = status

        def read(self) -> bytes:
            return body

    return errors.from_http(_get_error(Response()))


BUSY = RequestError("unavailable", "busy", transient=True)


def test_waits_are_spread_and_double_up_to_a_limit() -> None:
    for attempt in range(8):
        limit_s = min(FIRST_WAIT_S * 2**attempt, MAX_WAIT_S)
        waits = [choose_retry_wait(BUSY, attempt, 1000) for _ in range(500)]
        assert all(wait is not None and 0 <= wait <= limit_s for wait in waits)
        known = [wait for wait in waits if wait is not None]
        assert min(known) < 0.05 * limit_s < 0.95 * limit_s < max(known)


def test_nothing_is_waited_for_beyond_the_deadline() -> None:
    waits = [choose_retry_wait(BUSY, 0, FIRST_WAIT_S / 2) for _ in range(500)]
    assert 150 < waits.count(None) < 350
    assert all(wait is None or wait < FIRST_WAIT_S / 2 for wait in waits)


def test_other_errors_are_not_retried() -> None:
    for error in (
        from_grpc("INVALID_ARGUMENT", "no such input"),
        from_grpc("NOT_FOUND", "Request for unknown model: 'x' is not found"),
        from_grpc("INTERNAL", "failed"),
        from_grpc("UNAVAILABLE", "This protocol is restricted, expecting header 'a'"),
        from_http(400, b'{"error":"no such input"}'),
        from_http(404, b""),
        from_http(429, b""),
        from_http(500, b""),
        from_message("Exceeds maximum queue size"),
        from_os_error(OSError(113, "No route to host")),
    ):
        assert choose_retry_wait(error, 0, 10) is None


@pytest.mark.parametrize(
    "error",
    [
        from_grpc("UNAVAILABLE", "This protocol is restricted, expecting header 'a'"),
        from_http(403, b'{"error":"This API is restricted, expecting header"}'),
    ],
    ids=["gRPC", "HTTP"],
)
def test_restricted_api_is_not_a_lost_server(error: RequestError) -> None:
    assert error.status_name == "unsupported"
    assert not error.transient


@pytest.mark.parametrize(
    "error",
    [
        from_grpc("UNAVAILABLE", "in ensemble 'd', Exceeds maximum queue size"),
        from_grpc("UNAVAILABLE", "failed to connect to all addresses; last"),
        from_grpc("UNAVAILABLE", "Stream removed (Socket closed)"),
        from_grpc("CANCELLED", "CANCELLED"),  # dropped by a server that stops
        from_http(503, b'{"error":"Exceeds maximum queue size"}'),
        from_http(503, b"upstream connect error or disconnect"),
        from_os_error(ConnectionRefusedError(111, "Connection refused")),
        from_os_error(OSError(104, "Connection reset by peer")),
    ],
)
def test_transient_errors_are_retried(error: RequestError) -> None:
    assert error.status_name == "unavailable"
    wait_s = choose_retry_wait(error, 0, 10)
    assert wait_s is not None
    assert 0 <= wait_s <= FIRST_WAIT_S


OVERLOADED = (
    "unavailable: 43 ms of work wait before this request, and max_queue_cost is 40 ms; retry after"
)


@pytest.mark.parametrize(
    "error",
    [
        from_grpc("UNAVAILABLE", f"{OVERLOADED} 1500 ms"),
        from_grpc("UNAVAILABLE", f"in ensemble 'detect', {OVERLOADED} 1500 ms"),
        from_grpc("UNAVAILABLE", f"model 'preprocess': {OVERLOADED} 1500 ms"),
        from_http(503, json.dumps({"error": f"{OVERLOADED} 1500 ms"}).encode()),
        from_message(f"{OVERLOADED} 1500 ms"),
    ],
    ids=["gRPC", "ensemble", "cascade", "HTTP", "stream"],
)
def test_an_overloaded_server_is_asked_again_when_it_says(error: RequestError) -> None:
    assert error.status_name == "unavailable"
    assert error.retry_after_s == 1.5
    waits = [choose_retry_wait(error, 0, 60) for _ in range(200)]
    assert all(wait is not None and 1.5 <= wait <= 1.5 + FIRST_WAIT_S for wait in waits)
    assert choose_retry_wait(error, 0, 1.4) is None  # the deadline is before that


TOO_LATE = "unavailable: the response would take 35 ms, and the request's timeout is 20 ms"


@pytest.mark.parametrize(
    "error",
    [
        from_grpc("UNAVAILABLE", TOO_LATE),
        from_grpc("UNAVAILABLE", f"in ensemble 'detect', {TOO_LATE}"),
        from_grpc("UNAVAILABLE", "unavailable: the request's timeout ended in the queue"),
        from_http(503, json.dumps({"error": TOO_LATE}).encode()),
    ],
    ids=["gRPC", "ensemble", "queue", "HTTP"],
)
def test_a_request_that_would_be_too_late_is_not_repeated(error: RequestError) -> None:
    assert error.status_name == "unavailable"
    assert choose_retry_wait(error, 0, 60) is None
    assert from_grpc("UNAVAILABLE", f"{TOO_LATE}; retry after 5 ms").retry_after_s == 0.005


@pytest.mark.parametrize(
    "error",
    [
        from_grpc("UNAVAILABLE", "Exceeds maximum queue size; retry after 5 s"),
        from_grpc("INVALID_ARGUMENT", "invalid_argument: no; retry after 5 ms"),
        from_grpc("UNAVAILABLE", f"{OVERLOADED} 99999999999 ms"),
    ],
)
def test_other_messages_are_no_hint(error: RequestError) -> None:
    assert error.retry_after_s is None


def test_errors_have_the_servers_message() -> None:
    for region in ("shared memory region", "system shared memory region"):
        assert from_grpc("NOT_FOUND", f"Unable to find {region}: 'a'").region_lost
        said = json.dumps({"error": f"Unable to find {region}: 'a'"}).encode()
        assert from_http(404, said).region_lost
    assert not from_grpc("NOT_FOUND", "Request for unknown model: 'a' is not found").region_lost
    plain = from_http(502, b"<html>\n Bad   Gateway</html>")
    assert str(plain) == "HTTP status 502: <html> Bad Gateway</html>"
    assert plain.status_name == "internal"
    assert str(from_http(500, b"")) == "HTTP status 500"
    assert str(from_http(500, b'["\xff"]')) == "HTTP status 500"
    known = from_http(400, b'{"error":"in ensemble \'d\', image_limit: too big"}')
    assert (known.status_name, str(known)) == ("image_limit", "too big")


def test_an_error_can_be_copied_and_pickled() -> None:
    error = from_grpc("UNAVAILABLE", "Unable to find shared memory region: 'a'")
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert twin is not error
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
        assert twin.region_lost


@pytest.mark.parametrize(
    "message",
    [
        "in ensemble 'detect', Server is stopping, scheduler for model has stopped accepting new "
        "inference requests",
        "Request for unknown model: 'detect' has no available versions",
        "Request for unknown model: 'detect' version 1 is not at ready state",
    ],
)
def test_a_server_that_stops_is_unavailable_for_now(message: str) -> None:
    said = json.dumps({"error": message}).encode()
    for error in (
        from_grpc("INTERNAL", message),
        from_grpc("NOT_FOUND", message),
        from_http(400, said),
        from_message(message),
    ):
        assert (error.status_name, error.transient) == ("unavailable", True)
    for other in ("unknown model: 'detect' is not found", "internal: Server is stopping"):
        assert not from_message(other).transient
