"""How a failure reads to clients, and which of Triton's codes it has: as in compiled backends."""

from __future__ import annotations

from endcap.errors import EndcapError, Status

# The name in `triton_python_backend_utils.TritonError`.
_CODES = {
    Status.CORRUPT_IMAGE: "INVALID_ARG",
    Status.IMAGE_LIMIT: "INVALID_ARG",
    Status.UNSUPPORTED: "INVALID_ARG",
    Status.INVALID_ARGUMENT: "INVALID_ARG",
    Status.OUT_OF_MEMORY: "UNAVAILABLE",
    Status.CUDA: "INTERNAL",
    Status.INTERNAL: "INTERNAL",
}

CANCELLED_TEXT = "the request was cancelled"


class ModelCallError(Exception):
    """A model that was called from inside another one has failed.

    Args:
        model: its name.
        message: what it said.
        code: Triton's code, one of ``TritonError``'s.
    """

    def __init__(self, model: str, message: str, code: object) -> None:
        super().__init__(f"model '{model}': {message}")
        self.code = code


class RequestCancelledError(Exception):
    """The client of a request has gone, which was noticed between two steps of the work."""


def status_of(error: BaseException) -> Status:
    """Return the failure class of an error; one that nobody meant is INTERNAL."""
    if isinstance(error, EndcapError):
        return error.status
    return Status.OUT_OF_MEMORY if isinstance(error, MemoryError) else Status.INTERNAL


def code_name(error: BaseException) -> str:
    """Return the name of Triton's code for an error, such as ``INVALID_ARG``."""
    return _CODES[status_of(error)]


def describe(error: BaseException) -> str:
    """Return the message for clients and logs, the failure class first: ``corrupt_image: ...``.

    A ModelCallError reads as it is, for the called model has said its class.
    """
    if isinstance(error, ModelCallError):
        return str(error)
    what = str(error)
    if not isinstance(error, EndcapError):
        what = f"{type(error).__name__}: {what}" if what else type(error).__name__
    return f"{status_of(error).label}: {what}"
