"""What both clients are made with, and what becomes of it once the server has told its model."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from endcap.client.address import Address, parse_address
from endcap.client.arguments import ClientArguments, Place, SharedMemory
from endcap.client.calls import OutputTensor
from endcap.client.errors import ClientError
from endcap.client.images import ImageReader
from endcap.client.options import ConnectionOptions
from endcap.client.pipeline import EnsemblePipeline, Pipeline
from endcap.client.reading import ResponseReader
from endcap.client.sequences import SequenceSteps
from endcap.client.served_model import Script, ServedModel, look_up
from endcap.client.steps import ClientPipeline, ServedSteps
from endcap.client.streaming import StreamBook
from endcap.errors import InvalidArgumentError, UnsupportedError

_LONGEST_REQUEST_ID = 64


@dataclass(frozen=True)
class ClientSettings:
    """The arguments of a client, looked at; see `DetectionClient`."""

    address: Address
    options: ConnectionOptions
    model: str
    concurrency: int
    batch: int
    labels: Sequence[str] | None
    extras: bool
    shared_memory: SharedMemory
    regions: int
    region_bytes: int | None
    preprocess: Place
    postprocess: Place
    classify: int | None
    images: ImageReader
    request_id: str

    @property
    def takes_steps(self) -> bool:
        """Whether the client takes steps of the ensemble itself."""
        return "client" in (self.preprocess, self.postprocess)

    def look_up(self) -> Script:
        """Asks the server for the model."""
        best_classes = self.classify is not None
        return look_up(
            self.address, self.model, timeout_s=self.options.timeout_s, best_classes=best_classes
        )


def read_settings(given: ClientArguments) -> ClientSettings:
    """Returns the settings. Raises InvalidArgumentError for one that cannot be used."""
    numbers = {"concurrency": given.concurrency, "batch": given.batch, "regions": given.regions}
    for name, number in {**numbers, "region_bytes": given.region_bytes}.items():
        if number is not None and number < 1:
            raise InvalidArgumentError(f"{name} {number} is below 1")
    _check_choice("shared_memory", given.shared_memory, ("none", "system", "cuda"))
    _check_choice("preprocess", given.preprocess, ("server", "client"))
    _check_choice("postprocess", given.postprocess, ("server", "client"))
    prefix = secrets.token_hex(4) if given.request_id is None else given.request_id
    if not prefix.isprintable() or len(prefix) > _LONGEST_REQUEST_ID:
        raise InvalidArgumentError(
            f"request_id {prefix[:80]!r} cannot be sent; give at most {_LONGEST_REQUEST_ID} "
            "printable characters"
        )
    options = given.options or ConnectionOptions(timeout_s=given.timeout_s)
    address = parse_address(given.url, given.protocol)
    return ClientSettings(
        address=replace(address, secure=address.secure or options.tls is not None),
        options=options,
        model=given.model,
        concurrency=given.concurrency,
        batch=given.batch,
        labels=given.labels,
        extras=given.extras,
        shared_memory=given.shared_memory,
        regions=given.concurrency if given.regions is None else given.regions,
        region_bytes=given.region_bytes,
        preprocess=given.preprocess,
        postprocess=given.postprocess,
        classify=given.classify,
        images=ImageReader(given.preprocess == "client", given.color, given.jpeg_quality),
        request_id=prefix,
    )


class Plan:
    """How a client asks the model that it has found, and reads its answers.

    steps: of the ensemble, where the client takes some itself.
    Raises InvalidArgumentError and UnsupportedError for settings that do not go with the model.
    """

    def __init__(
        self, settings: ClientSettings, model: ServedModel, steps: ServedSteps | None
    ) -> None:
        labels = model.labels() if settings.labels is None else list(settings.labels)
        self.model = model
        self.labels = labels
        self.reader = ResponseReader(model, labels, settings.classify)
        self.next_id: Callable[[], str] = _numbered(settings.request_id)
        self._settings = settings
        wanted = self.reader.wanted(extras=settings.extras)
        self._ensemble = EnsemblePipeline(model, wanted, self.reader.class_counts)
        self.pipeline: Pipeline = self._ensemble
        limit = model.batch_limit
        if steps is not None:
            counts = self.reader.class_counts
            pipeline = ClientPipeline(
                steps,
                preprocess=settings.preprocess,
                postprocess=settings.postprocess,
                outputs=[OutputTensor(name, class_count=counts.get(name, 0)) for name in wanted],
            )
            self.pipeline, limit = pipeline, min(limit, pipeline.max_batch)
        if settings.batch > limit:
            raise InvalidArgumentError(
                f"batch {settings.batch} is above {limit}, the most images in one request to model "
                f"'{model.name}'"
            )
        self.region_bytes = settings.region_bytes or self.pipeline.region_bytes(settings.batch)
        self.is_closed = False
        self._process = os.getpid()

    def check_usable(self) -> None:
        """Raises ClientError where the client is closed, or was made before a fork."""
        if self.is_closed:
            raise ClientError("this client is closed; make another one")
        if not self.is_own_process:
            raise ClientError(
                f"this client was made by process {self._process}, before a fork, which its "
                "connection does not survive; make a client in each process"
            )

    @property
    def is_own_process(self) -> bool:
        """Whether this is the process that made the client."""
        return self._process == os.getpid()

    def check_whole_answers(self) -> None:
        """Raises UnsupportedError for a model that answers with several responses."""
        if self.model.decoupled:
            raise UnsupportedError(
                f"model '{self.model.name}' is decoupled, it may answer an image with several "
                "responses; ask it by detect_stream() (`endcap infer --stream`)"
            )

    def begin_stream(self, sequence: int | str | None) -> tuple[StreamBook, SequenceSteps]:
        """Returns what a stream of images needs. Raises UnsupportedError where there is none."""
        self.check_usable()
        if self._settings.address.protocol != "grpc":
            raise UnsupportedError("Triton has streams over gRPC only; give its gRPC address")
        if self._settings.takes_steps or self._settings.shared_memory != "none":
            raise UnsupportedError(
                "a stream goes over the wire to the whole model; leave preprocess, postprocess "
                "and shared_memory out, or take detect() (`endcap infer` without --stream)"
            )
        if self._settings.batch > 1:
            raise UnsupportedError(
                f"a stream sends each image by itself, and batch is {self._settings.batch}; leave "
                "batch out, or take detect() (`endcap infer` without --stream)"
            )
        return StreamBook(self._ensemble, self.reader, self.next_id), SequenceSteps(sequence)


def _numbered(prefix: str) -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"{prefix}-{next(numbers)}"


def _check_choice(name: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise InvalidArgumentError(f"{name} {given!r} is unknown; use {' or '.join(allowed)}")
