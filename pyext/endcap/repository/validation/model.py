"""Models of a repository as the checks see them, and findings about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path

from endcap.repository.input_normalization import Normalization
from endcap.triton.ensemble import POSTPROCESS_BACKEND, PREPROCESS_BACKEND
from endcap.triton.model_config import CONFIG_NAME, Block, ModelConfigError, parse_config
from endcap.triton.model_folder import FILE_OF_BACKEND, ModelFolder, read_integer, read_model_folder
from endcap.triton.tensor_spec import TensorSpec, free_dims

SIDES = ("input", "output")
_TRUE = ("true", "True", "t", "1")  # as protobuf reads them
_FILES = {**FILE_OF_BACKEND, "endcap_onnx": "model.onnx"}
_STAGE = re.compile(
    rb"^from endcap\.python_backend\.((?:pre|post)process)_(?:dali_)?stage import ", re.MULTILINE
)


class Severity(str, Enum):
    """How bad a finding is."""

    NOTE = "note"  # nothing is wrong with the repository
    WARNING = "warning"  # it loads, but is hardly meant
    ERROR = "error"  # a model does not load, or every request fails


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: in which file and line, of which model, and what to do about it."""

    file: Path
    line: int | None  # None where no line is wrong, as with a missing folder
    severity: Severity
    model: str
    problem: str
    remedy: str

    def to_json(self) -> dict[str, str | int | None]:
        """Return the object that `endcap validate --json` prints."""
        return {**asdict(self), "file": str(self.file), "severity": self.severity.value}


@dataclass(frozen=True)
class Report:
    """All findings, by file and line, and how many models there are."""

    model_count: int
    findings: Sequence[Finding]

    def count(self, severity: Severity) -> int:
        """Return the number of findings of one severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def with_errors_for_warnings(self) -> Report:
        """Return the same report in which every warning is an error."""
        findings = [
            replace(each, severity=Severity.ERROR) if each.severity is Severity.WARNING else each
            for each in self.findings
        ]
        return Report(self.model_count, findings)


@dataclass(frozen=True)
class Port:
    """One input or output, without the batch dimension where the model has one."""

    tensor: TensorSpec
    block: Block | None = None  # in config.pbtxt; None where the backend completes it
    optional: bool = False
    determined_by: str = ""  # the parameters on which it depends, where any are known

    @property
    def type_text(self) -> str:
        """Type and shape, such as `FP32 [3, 640, 640]`."""
        return str(self.tensor).removeprefix(f"{self.tensor.name} ")


@dataclass(frozen=True)
class Interface:
    """All inputs and outputs by name, and the largest batch.

    Inputs and outputs are None where they are unknown. They are where the model has a finding about
    them: nothing is concluded from a mistake.
    """

    inputs: Mapping[str, Port] | None
    outputs: Mapping[str, Port] | None
    max_batch_size: int | None  # 0 without a batch dimension, None where it is not known
    contradictory: bool = False  # what is declared is not what the parameters determine
    normalization: Normalization | None = None  # by which the model's network begins


@dataclass(frozen=True)
class Model(ModelFolder):
    """A folder, and a config.pbtxt that Triton knows, or none."""

    @property
    def name(self) -> str:
        """The name of the folder, and so of the model."""
        return self.path.name

    @property
    def file(self) -> Path:
        """The config.pbtxt, or the folder where there is none."""
        config = self.path / CONFIG_NAME
        return config if config.is_file() else self.path

    @property
    def is_ensemble(self) -> bool:
        """Whether it only passes tensors from step to step."""
        return self.platform == "ensemble" or bool(self.config.blocks("ensemble_scheduling"))

    @property
    def stage(self) -> str:
        """The backend of endcap's whose stage it runs, be it in a Python model; else ""."""
        if self.needed_backend in (PREPROCESS_BACKEND, POSTPROCESS_BACKEND):
            return self.needed_backend
        in_python = _STAGE.search(self.source)
        return f"endcap_{in_python[1].decode()}" if in_python else ""

    @property
    def largest_batch(self) -> int | None:
        """The largest batch, 0 without a batch dimension, None where it is impossible."""
        largest = read_integer(self.config.value("max_batch_size"))
        return largest if largest >= 0 else None

    @property
    def parameters(self) -> Mapping[str, str]:
        """The values of config.pbtxt's parameters by their names."""
        return {key: self.config.parameter(key) or "" for key in self.config.entries("parameters")}

    def error(self, line: int, text: str, severity: Severity = Severity.ERROR) -> Finding:
        """Return a finding in a line of config.pbtxt; its remedy follows the last semicolon."""
        problem, _, remedy = text.rpartition("; ")
        at = line if self.file != self.path else None
        return Finding(self.file, at, severity, self.name, problem, remedy)

    def warning(self, line: int, text: str) -> Finding:
        """Return a warning, as `error`."""
        return self.error(line, text, Severity.WARNING)

    def parameter_line(self, name: str) -> int:
        """Return the line of a parameter's value, that of the file's beginning if it has none."""
        return self.config.entry("parameters", name).line

    def network_file(self, version: int) -> Path | None:
        """Return the file that the backend opens in a version folder, None where it opens none."""
        name = self.config.value("default_model_filename") or _FILES.get(self.needed_backend)
        return self.path / str(version) / name if name and not self.is_ensemble else None

    def loaded_versions(self) -> list[int]:
        """Return the versions that Triton loads, there or not: the newest by default."""
        latest = 1
        for policy in self.config.blocks("version_policy"):
            for specific in policy.blocks("specific"):
                return sorted(map(read_integer, specific.values("versions")))
            if policy.blocks("all"):
                return self.versions
            for block in policy.blocks("latest"):
                latest = max(1, read_integer(block.value("num_versions")))
        return self.versions[-latest:]

    def declared_ports(self, side: str) -> dict[str, Port]:
        """Return the inputs or outputs that config.pbtxt lists."""
        ports = {}
        for entry in self.config.blocks(side):
            dims = free_dims([*map(read_integer, entry.values("dims"))])
            data_type = entry.value("data_type").removeprefix("TYPE_")
            optional = side == "input" and entry.value("optional") in _TRUE
            spec = TensorSpec(entry.value("name"), data_type, dims)
            ports[spec.name] = Port(spec, entry, optional)
        return ports

    def declared_interface(self) -> Interface:
        """Return the interface as config.pbtxt has it; a side that lists nothing is not known."""
        inputs, outputs = (self.declared_ports(side) for side in SIDES)
        return Interface(inputs or None, outputs or None, self.largest_batch)


def read_model(folder: Path) -> Model | Finding:
    """Return the model in a folder, or why there is none that could be looked at.

    Raises:
        ServerError: Triton's gRPC client is not installed.
    """
    file, line = folder / CONFIG_NAME, None
    try:
        read = read_model_folder(folder)
        if file.is_file() or read.versions:
            parse_config(read.text, file)
            return Model(folder, read.text)
        file = folder
        problem = (
            "this is not a model, and Triton does not start next to such a folder: it has neither "
            "a config.pbtxt nor a version folder"
        )
        remedy = "move it elsewhere, or into a model"
    except OSError as error:
        problem, remedy = f"it cannot be read: {error.strerror}", "make it readable"
    except ModelConfigError as error:
        line = error.line
        problem = f"this is not a model configuration that Triton knows: {error.reason}"
        remedy = "correct it; nothing else of this model was checked"
    return Finding(file, line, Severity.ERROR, folder.name, problem, remedy)
