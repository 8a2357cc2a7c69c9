"""Which images of a stream are sent, and where in a sequence each stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from endcap.client.calls import SequenceStep
from endcap.client.errors import RequestError
from endcap.client.images import Content
from endcap.errors import InvalidArgumentError

_LONGEST_ID = 128  # of a text, as Triton has it
_LARGEST_ID = 2**64 - 1


@dataclass(frozen=True)
class StreamImage:
    """An image of a stream: what is sent, or why it is not."""

    name: str
    content: Content | RequestError
    step: SequenceStep | None = None

    @property
    def is_sent(self) -> bool:
        """Whether there is something to send."""
        return not isinstance(self.content, RequestError)


class SequenceSteps:
    """Gives images of a sequence their steps: the first that is sent starts it, the last ends it.

    So each waits until the next that is sent has come; those that cannot be sent wait with it.
    sequence: the id, None for images that are of no sequence and wait for nothing.
    Raises InvalidArgumentError for an id that Triton has not.
    """

    def __init__(self, sequence: int | str | None) -> None:
        if sequence is not None:
            _check(sequence)
        self._sequence = sequence
        self._started = False
        self._waiting: list[StreamImage] = []

    def push(self, image: StreamImage) -> Sequence[StreamImage]:
        """Takes the next image; returns those that can go on now, in order."""
        if self._sequence is None or not (image.is_sent or self._waiting):
            return [image]
        ready: Sequence[StreamImage] = self._release(end=False) if image.is_sent else []
        self._waiting.append(image)
        return ready

    def end(self) -> Sequence[StreamImage]:
        """Returns what still waits; no image follows."""
        return self._release(end=True)

    def _release(self, *, end: bool) -> Sequence[StreamImage]:
        if not self._waiting or self._sequence is None:
            return []
        step = SequenceStep(self._sequence, start=not self._started, end=end)
        first, *others = self._waiting
        self._started, self._waiting = True, []
        return [replace(first, step=step), *others]


def _check(sequence: int | str) -> None:
    if isinstance(sequence, str):
        fits = 0 < len(sequence.encode()) <= _LONGEST_ID
    else:
        fits = 0 < sequence <= _LARGEST_ID
    if not fits:
        raise InvalidArgumentError(
            f"sequence {sequence!r} is no id of a sequence; give a number from 1 to 2^64 - 1, or "
            f"a text of 1 to {_LONGEST_ID} bytes"
        )
