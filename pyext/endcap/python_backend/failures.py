"""How a failure reads to clients, and which of Triton's codes it has: as in compiled backends."""

from __future__ import annotations

import re

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

# How endcap's own models begin an error, behind what an ensemble puts before it. The last is of a
# model that has too much work, which may add when it will have less.
_CLASSES = {status.label: status for status in Status if status is not Status.OK}
_UNAVAILABLE = "unavailable"
_CLASS = re.compile(rf"\b({'|'.join([*_CLASSES, _UNAVAILABLE])}): ")
_RETRY_AFTER = re.compile(r"; retry after (\d{1,9}) ms$")


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
        found = _CLASS.search(message)
        self._class = found[1] if found else None

    @property
    def status(self) -> Status:
        """The failure class that the model has said; INTERNAL where it has said none."""
        return _CLASSES.get(self._class or "", Status.INTERNAL)

    @property
    def retry_after_s(self) -> float | None:
        """How long the model asks to wait before the call is repeated; None where it does not."""
        hint = _RETRY_AFTER.search(str(self)) if self._class == _UNAVAILABLE else None
        return None if hint is None else int(hint[1]) / 1e3


class RequestCancelledError(Exception):
    """The client of a request has gone, which was noticed between two steps of the work."""


def find_status(error: BaseException) -> Status:
    """Return the failure class of an error; one that nobody meant is INTERNAL."""
    if isinstance(error, (EndcapError, ModelCallError)):
        return error.status
    return Status.OUT_OF_MEMORY if isinstance(error, MemoryError) else Status.INTERNAL


def code_name(error: BaseException) -> str:
    """Return the name of Triton's code for an error, such as ``INVALID_ARG``."""
    return _CODES[find_status(error)]


def code_name_of_message(message: str) -> str | None:
    """Return the name of Triton's code for the class in a model's message; None without one."""
    found = _CLASS.search(message)
    if found is None:
        return None
    return "UNAVAILABLE" if found[1] == _UNAVAILABLE else _CODES[_CLASSES[found[1]]]


def describe(error: BaseException) -> str:
    """Return the message for clients and logs, the failure class first: ``corrupt_image: ...``.

    The message of a ModelCallError is unmodified: the called model has said its class.
    """
    if isinstance(error, ModelCallError):
        return str(error)
    what = str(error)
    if not isinstance(error, EndcapError):
        what = f"{type(error).__name__}: {what}" if what else type(error).__name__
    return f"{find_status(error).label}: {what}"
