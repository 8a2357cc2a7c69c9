"""What a client knows once it is connected: the model, how to ask it, and whether it is closed."""

from __future__ import annotations

import itertools
import os

from endcap.client.arguments import ClientArguments
from endcap.client.ensemble_request import EnsembleRequest
from endcap.client.errors import ClientError
from endcap.client.response_reader import ResponseReader
from endcap.client.served_model import ServedModel
from endcap.client.stream_order import SequenceSteps, StreamOrder
from endcap.errors import InvalidArgumentError, UnsupportedError


class Session:
    """A connected client's model, requests and responses.

    Raises InvalidArgumentError and UnsupportedError for arguments that do not go with the model.
    """

    def __init__(self, arguments: ClientArguments, model: ServedModel) -> None:
        labels = model.labels() if arguments.labels is None else list(arguments.labels)
        self.model = model
        self.labels = labels
        self.reader = ResponseReader(model, labels, arguments.classify)
        self._arguments = arguments
        wanted = self.reader.wanted(extras=arguments.extras)
        self.requests = EnsembleRequest(model, wanted, self.reader.class_counts)
        if arguments.batch > model.batch_limit:
            raise InvalidArgumentError(
                f"batch {arguments.batch} is above {model.batch_limit}, the most images in one "
                f"request to model '{model.name}'"
            )
        self.regions = arguments.regions or arguments.concurrency
        self.region_bytes = arguments.region_bytes or self.requests.region_bytes(arguments.batch)
        self.is_closed = False
        self._process = os.getpid()
        self._prefix = arguments.request_id_prefix()
        self._numbers = itertools.count(1)

    def next_id(self) -> str:
        """Return the id of the next request."""
        return f"{self._prefix}-{next(self._numbers)}"

    @property
    def is_own_process(self) -> bool:
        """Whether this is the process that made the client."""
        return self._process == os.getpid()

    def check_usable(self) -> None:
        """Raise ClientError where the client is closed, or was made before a fork."""
        if self.is_closed:
            raise ClientError("this client is closed; make another one")
        if not self.is_own_process:
            raise ClientError(
                f"this client was made by process {self._process}, before a fork, which its "
                "connection does not survive; make a client in each process"
            )

    def check_one_response(self) -> None:
        """Raise UnsupportedError for a model that may send several responses to a request."""
        if self.model.decoupled:
            raise UnsupportedError(
                f"model '{self.model.name}' is decoupled, it may answer an image with several "
                "responses; ask it by detect_stream() (`endcap infer --stream`)"
            )

    def begin_stream(self, sequence: int | str | None) -> tuple[StreamOrder, SequenceSteps]:
        """Return what a stream of images needs. Raises UnsupportedError where there is none."""
        self.check_usable()
        if self._arguments.address.protocol != "grpc":
            raise UnsupportedError("Triton has streams over gRPC only; give its gRPC address")
        if self._arguments.shared_memory != "none":
            raise UnsupportedError(
                "a stream goes over the wire; leave shared_memory out, or take detect() "
                "(`endcap infer` without --stream)"
            )
        if self._arguments.batch > 1:
            raise UnsupportedError(
                f"a stream sends each image by itself, and batch is {self._arguments.batch}; leave "
                "batch out, or take detect() (`endcap infer` without --stream)"
            )
        order = StreamOrder(self.requests, self.reader, self.next_id)
        return order, SequenceSteps(sequence)
