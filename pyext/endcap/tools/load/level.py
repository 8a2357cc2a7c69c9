"""What one level of a load test showed: so many requests in flight, in a window of time."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from endcap.tools.load.server_times import ModelTime
from endcap.tools.load.window import Figures

# From here on the figures may be the client's: Python runs on one core, and needs some of it to
# notice an answer in time.
SATURATED_FROM = 0.85


@dataclass(frozen=True)
class ServerPart:
    """Means over the requests that the server counted in a window, in milliseconds.

    Attributes:
        whole: The model that was asked; None where its steps were, as by a client that takes some
            of them itself.
        steps: Of an ensemble.
    """

    whole: ModelTime | None
    steps: list[ModelTime]

    @property
    def total(self) -> float:
        """The whole of a request, or the sum of the steps that were asked."""
        return self.whole.total if self.whole else sum(step.total for step in self.steps)

    @property
    def queue(self) -> float:
        """In the queues of the model and of its steps."""
        own = self.whole.queue if self.whole else 0.0
        return own + sum(step.queue for step in self.steps)

    @property
    def compute(self) -> float:
        """Of the models themselves; an ensemble's is that of its steps."""
        if self.whole and not self.steps:
            return self.whole.compute
        return sum(step.compute for step in self.steps)


@dataclass(frozen=True)
class Level:
    """What one level showed.

    Attributes:
        client_cpu: Cores that this process used on average.
        server: None with the reason in `server_problem`.
        interrupted: Whether the window was cut short.
    """

    concurrency: int
    figures: Figures
    client_cpu: float
    server: ServerPart | None
    server_problem: str | None
    interrupted: bool

    @property
    def is_client_saturated(self) -> bool:
        """Whether the client rather than the server may have been the limit."""
        return self.client_cpu >= SATURATED_FROM

    @property
    def others_requests(self) -> int:
        """How many requests the server counted beyond this client's; 0 where it may be chance.

        At either edge of the window the two may disagree about what is in flight, and of images
        that failed a request may have been sent again.
        """
        if self.server is None or self.server.whole is None or self.figures.failures:
            return 0
        beyond = self.server.whole.requests - self.figures.requests
        return beyond if beyond > 2 * self.concurrency else 0

    def to_json(self) -> dict[str, Any]:
        """Return what `endcap load --json` prints."""
        return {
            "concurrency": self.concurrency,
            "images_per_s": self.figures.images_per_s,
            **dataclasses.asdict(self.figures),
            "client_cpu": self.client_cpu,
            "server_ms": dataclasses.asdict(self.server) if self.server else None,
            "server_problem": self.server_problem,
            "interrupted": self.interrupted,
        }
