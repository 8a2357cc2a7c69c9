"""What a server says of a model's configuration, checked piece by piece: it is another's data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from endcap.client.errors import ClientError

Json = Mapping[str, Any]
_DIGITS = re.compile(r"-1|[0-9]{1,19}")


@dataclass(frozen=True)
class TensorConfig:
    """An input or an output.

    datatype: as in requests, "BYTES" for TYPE_STRING. dims: without the batch dimension; -1 is any.
    """

    name: str
    datatype: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class EnsembleStep:
    """A step of an ensemble: the ensemble's names of tensors by the model's own.

    version: -1 is the newest.
    """

    model: str
    version: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True)
class ModelConfig:
    """A model's configuration as the server runs it.

    max_batch_size: 0 where tensors have no batch dimension. parameters: as text.
    steps: of an ensemble; () for any other model.
    """

    name: str
    backend: str
    max_batch_size: int
    inputs: Mapping[str, TensorConfig]
    outputs: Mapping[str, TensorConfig]
    parameters: Mapping[str, str]
    steps: tuple[EnsembleStep, ...]

    @property
    def batched(self) -> bool:
        """Whether the tensors of requests have a batch dimension before these dims."""
        return self.max_batch_size > 0


def read_model_config(config: Json, model: str) -> ModelConfig:
    """Returns what `Connection.config` gave for a model.

    Raises ClientError, naming the place, for what is no configuration.
    """
    reader = _Reader(f"the configuration of model '{model}'")
    scheduling = reader.mapping(config, "ensemble_scheduling")
    return ModelConfig(
        name=model,
        backend=reader.text(config, "backend"),
        max_batch_size=reader.integer(config, "max_batch_size", 0),
        inputs={tensor.name: tensor for tensor in reader.tensors(config, "input")},
        outputs={tensor.name: tensor for tensor in reader.tensors(config, "output")},
        parameters={
            name: reader.text(value, "string_value")
            for name, value in reader.mapping(config, "parameters").items()
        },
        steps=tuple(
            EnsembleStep(
                reader.text(step, "model_name"),
                reader.integer(step, "model_version", -1),
                reader.texts(step, "input_map"),
                reader.texts(step, "output_map"),
            )
            for step in reader.rows(scheduling, "step")
        ),
    )


@dataclass(frozen=True)
class _Reader:
    """Reads fields of objects; what is not there has protobuf's default."""

    source: str

    def text(self, row: Json, key: str) -> str:
        return str(self._field(row, key, str, ""))

    def mapping(self, row: Json, key: str) -> Json:
        fields: Json = self._field(row, key, dict, {})
        return fields

    def texts(self, row: Json, key: str) -> dict[str, str]:
        fields = self.mapping(row, key)
        return {name: self.text(fields, name) for name in fields}

    def rows(self, row: Json, key: str) -> list[Json]:
        return list(self._field(row, key, list, []))

    def integer(self, row: Json, key: str, default: int) -> int:
        return self._integer(self._field(row, key, (int, str), default), key)

    def tensors(self, config: Json, key: str) -> Iterator[TensorConfig]:
        for row in self.rows(config, key):
            dims = tuple(self._integer(dim, "dims") for dim in self._field(row, "dims", list, []))
            kind = self.text(row, "data_type").removeprefix("TYPE_")
            yield TensorConfig(self.text(row, "name"), "BYTES" if kind == "STRING" else kind, dims)

    def _field(self, row: Any, key: str, kind: Any, default: Any) -> Any:
        value = row.get(key, default) if isinstance(row, Mapping) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ClientError(
                f"{self.source} cannot be read: {key} is missing or of the wrong kind; ask another "
                "server"
            )
        return value

    def _integer(self, value: Any, key: str) -> int:
        # Whole numbers of 64 bits are texts in protobuf's JSON.
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not (is_number or _DIGITS.fullmatch(str(value))) or not -1 <= int(value) < 2**63:
            raise ClientError(
                f"{self.source} cannot be read: {key} holds no whole number; ask another server"
            )
        return int(value)
