"""Retries: their number, their waits, and errors without a retry."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from tritonclient.http._utils import _get_error

from endcap.client import errors
from endcap.client.errors import (
    RequestError,
    from_grpc,
    from_os_error,
    from_stream,
)
from endcap.client.retry import FIRST_WAIT_S, LONGEST_WAIT_S, Attempts, Deadline, RetryPolicy


def from_http(status: int, body: bytes) -> RequestError:
    """Return the error of a response, as tritonclient reads it."""

    class Response:
        status_code = status

        def read(self) -> bytes:
            return body

    return errors.from_http(_get_error(Response()))


BUSY = RequestError("unavailable", "busy", transient=True)


class Clock:
    """Time as the test lets it pass."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def longest(low: float, high: float) -> float:
    assert low == 0
    return high


def test_waits_double_up_to_a_limit() -> None:
    attempts = Attempts(8, 1000, clock=Clock(), draw=longest)
    waits = [attempts.wait_after(BUSY) for _ in range(8)]
    assert waits == [min(FIRST_WAIT_S * 2**n, LONGEST_WAIT_S) for n in range(8)]
    assert waits[-2:] == [LONGEST_WAIT_S] * 2
    with pytest.raises(RequestError) as caught:
        attempts.wait_after(BUSY)
    assert caught.value is BUSY


def test_waits_are_spread_over_all_of_their_length() -> None:
    waits = [Attempts(1, 1000).wait_after(BUSY) for _ in range(2000)]
    assert all(0 <= wait <= FIRST_WAIT_S for wait in waits)
    assert min(waits) < 0.05 * FIRST_WAIT_S
    assert max(waits) > 0.95 * FIRST_WAIT_S


def test_nothing_is_waited_for_beyond_the_deadline() -> None:
    clock = Clock()
    attempts = Attempts(100, 1.0, clock=clock, draw=longest)
    assert attempts.remaining_s() == 1.0
    clock.now_s += attempts.wait_after(BUSY)
    assert attempts.remaining_s() == 1.0 - FIRST_WAIT_S
    clock.now_s += attempts.wait_after(BUSY)
    with pytest.raises(RequestError, match="busy"):
        attempts.wait_after(BUSY)  # it would end at 1.75 s
    clock.now_s += 1
    assert attempts.remaining_s() == 0


def test_no_retries_and_other_errors_are_raised_as_they_are() -> None:
    with pytest.raises(RequestError, match="busy"):
        Attempts(0, 10).wait_after(BUSY)
    for error in (
        from_grpc("INVALID_ARGUMENT", "no such input"),
        from_grpc("NOT_FOUND", "Request for unknown model: 'x' is not found"),
        from_grpc("INTERNAL", "failed"),
        from_grpc("UNAVAILABLE", "This protocol is restricted, expecting header 'a'"),
        from_http(400, b'{"error":"no such input"}'),
        from_http(404, b""),
        from_http(429, b""),
        from_http(500, b""),
        from_stream("Exceeds maximum queue size", request_id="1"),
        from_os_error(OSError(113, "No route to host")),
    ):
        with pytest.raises(RequestError) as caught:
            Attempts(100, 10).wait_after(error)
        assert caught.value is error


@pytest.mark.parametrize(
    "error",
    [
        from_grpc("UNAVAILABLE", "This protocol is restricted, expecting header 'a'"),
        from_http(403, b'{"error":"This API is restricted, expecting header"}'),
    ],
    ids=["gRPC", "HTTP"],
)
def test_a_restricted_api_is_no_server_that_is_gone(error: RequestError) -> None:
    assert error.status_name == "unsupported"
    assert not error.transient


REFUSED = {
    "gRPC, busy": from_grpc("UNAVAILABLE", "in ensemble 'd', Exceeds maximum queue size"),
    "gRPC, stopping": from_grpc("UNAVAILABLE", "Server is stopping, scheduler for model"),
    "gRPC, no connection": from_grpc("UNAVAILABLE", "failed to connect to all addresses; last"),
    "HTTP": from_http(503, b'{"error":"Exceeds maximum queue size"}'),
    "TCP": from_os_error(ConnectionRefusedError(111, "Connection refused")),
}
LOST = {
    "gRPC": from_grpc("UNAVAILABLE", "Stream removed (Socket closed)"),
    "gRPC, dropped by the server": from_grpc("CANCELLED", "CANCELLED"),
    "gRPC, reset": from_grpc("UNAVAILABLE", "recvmsg:Connection reset by peer"),
    "proxy": from_http(503, b"upstream connect error or disconnect"),
    "TCP": from_os_error(OSError(104, "Connection reset by peer")),
    "HTTP": RequestError("unavailable", "Server disconnected", transient=True),
}


@pytest.mark.parametrize("error", [*REFUSED.values(), *LOST.values()])
def test_transient_errors_are_retried(error: RequestError) -> None:
    assert error.status_name == "unavailable"
    assert 0 <= Attempts(1, 10).wait_after(error) <= FIRST_WAIT_S


@pytest.mark.parametrize("error", REFUSED.values(), ids=REFUSED)
def test_refused_requests_are_retried_with_shared_memory_too(error: RequestError) -> None:
    assert 0 <= Attempts(1, 10, shares_memory=True).wait_after(error) <= FIRST_WAIT_S


@pytest.mark.parametrize("error", LOST.values(), ids=LOST)
def test_requests_that_may_run_are_not_retried_with_shared_memory(error: RequestError) -> None:
    """The first attempt would write into a region that others have by then."""
    with pytest.raises(RequestError) as caught:
        Attempts(100, 10, shares_memory=True).wait_after(error)
    assert caught.value is error


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
        from_stream(f"{OVERLOADED} 1500 ms", request_id="1"),
    ],
    ids=["gRPC", "ensemble", "cascade", "HTTP", "stream"],
)
def test_an_overloaded_server_is_asked_again_when_it_says(error: RequestError) -> None:
    assert error.status_name == "unavailable"
    assert error.retry_after_s == 1.5
    assert error.refused
    for shares_memory in (False, True):
        waits = [Attempts(1, 60, shares_memory=shares_memory).wait_after(error) for _ in range(200)]
        assert min(waits) >= 1.5
        assert max(waits) <= 1.5 + FIRST_WAIT_S
    with pytest.raises(RequestError) as caught:
        Attempts(1, 1.4).wait_after(error)  # the deadline is before that
    assert caught.value is error
    with pytest.raises(RequestError):
        Attempts(0, 60).wait_after(error)


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
    with pytest.raises(RequestError) as caught:
        Attempts(1, 60).wait_after(error)
    assert caught.value is error
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


def test_retries_stop_until_the_next_response() -> None:
    retry_policy = RetryPolicy(3)
    assert retry_policy.retries() == 3
    retry_policy.end(BUSY)
    assert retry_policy.retries() == 0
    retry_policy.end(from_grpc("INVALID_ARGUMENT", "no such input"))  # a server that responses
    assert retry_policy.retries() == 3
    retry_policy.end(BUSY)
    retry_policy.end(None)
    assert retry_policy.retries() == 3
    for refusal in (f"{OVERLOADED} 5 ms", TOO_LATE):
        with pytest.raises(RequestError):
            retry_policy.wait_after(
                from_grpc("UNAVAILABLE", refusal), Attempts(0, 60), repeatable=True
            )
        assert retry_policy.retries() == 3


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
    error = from_grpc("UNAVAILABLE", "Unable to find shared memory region: 'a'", request_id="7")
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert twin is not error
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
        assert twin.request_id == "7"
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
        from_stream(message, request_id="1"),
    ):
        assert (error.status_name, error.transient) == ("unavailable", True)
    for other in ("unknown model: 'detect' is not found", "internal: Server is stopping"):
        assert not from_stream(other, request_id="1").transient


def test_a_deadline_that_is_over_is_a_timeout() -> None:
    assert 0 < Deadline(60.0).left_s() <= 60.0
    with pytest.raises(RequestError, match=r"no response within 1e-09 s") as caught:
        Deadline(1e-9).left_s()
    with pytest.raises(RequestError, match=r"no response within 3 s"):
        Deadline(3.0, spent_s=3.5).left_s()
    assert caught.value.status_name == "timeout"
