"""Models of a repository as the checks see them, and findings about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from endcap.repository.errors import RepositoryError
from endcap.triton.model_config import (
    CONFIG_NAME,
    Block,
    ModelConfigError,
    as_unicode,
    parse_config,
    read_config,
    read_lines,
)
from endcap.triton.model_folder import needed_backend, read_model_folder

_VERSION = re.compile("0|[1-9][0-9]*")  # Triton ignores 01
_VIDEOS = b"endcap.video"
_STAGE = re.compile(
    rb"^from endcap\.python_backend\.(pre|post)process_(dali_)?stage import ", re.MULTILINE
)
# endcap's backends, which name its stages also where they run in Python models.
PREPROCESS, POSTPROCESS = "endcap_preprocess", "endcap_postprocess"


class Severity(str, Enum):
    """How bad a finding is."""

    NOTE = "note"  # nothing is wrong with the repository
    WARNING = "warning"  # it loads, but is hardly meant
    ERROR = "error"  # a model does not load, or every request fails


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong: in which file and line, of which model, and what to do about it.

    Attributes:
        line: None where no line is wrong, as with a missing folder.
    """

    file: Path
    line: int | None
    severity: Severity
    model: str
    problem: str
    remedy: str

    def to_json(self) -> dict[str, str | int | None]:
        """Return the object that `endcap validate --json` prints."""
        return {
            "file": str(self.file),
            "line": self.line,
            "severity": self.severity.value,
            "model": self.model,
            "problem": self.problem,
            "remedy": self.remedy,
        }


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
        return Report(
            self.model_count,
            [
                replace(finding, severity=Severity.ERROR)
                if finding.severity is Severity.WARNING
                else finding
                for finding in self.findings
            ],
        )


@dataclass(frozen=True)
class Model:
    """A folder and what its config.pbtxt says.

    Attributes:
        file: config.pbtxt, or the folder where there is none.
        config: The inference.ModelConfig message; an empty one where there is no file.
        lines: The line of each field of it.
        backend: The one that Triton would take; "" for an ensemble, or where it is unknown.
    """

    folder: Path
    file: Path
    config: Any
    lines: Block
    backend: str

    @property
    def name(self) -> str:
        """The name of the folder, and so of the model."""
        return self.folder.name

    @property
    def is_ensemble(self) -> bool:
        """Whether it only passes tensors from step to step."""
        return bool(self.config.platform == "ensemble") or self.config.HasField(
            "ensemble_scheduling"
        )

    @property
    def stage(self) -> str:
        """PREPROCESS or POSTPROCESS where endcap's backend or its Python model runs it, else ""."""
        if self.backend in (PREPROCESS, POSTPROCESS):
            return self.backend
        stage = self._stage_in_python()
        if stage is None:
            return ""
        return PREPROCESS if stage.group(1) == b"pre" else POSTPROCESS

    @property
    def runs_dali(self) -> bool:
        """Whether it is a stage that a DALI pipeline of endcap's Python model runs."""
        stage = self._stage_in_python()
        return stage is not None and stage.group(2) is not None

    @property
    def reads_videos(self) -> bool:
        """Whether it is a Python model that reads videos by endcap."""
        for version in reversed(self.loaded_versions() if self.backend == "python" else []):
            file = self.folder / str(version) / "model.py"
            if file.is_file() and _VIDEOS in file.read_bytes():
                return True
        return False

    def _stage_in_python(self) -> re.Match[bytes] | None:
        for version in reversed(self.loaded_versions() if self.backend == "python" else []):
            file = self.folder / str(version) / "model.py"
            stage = _STAGE.search(file.read_bytes()) if file.is_file() else None
            if stage:
                return stage
        return None

    @property
    def max_batch_size(self) -> int | None:
        """The largest batch, 0 without a batch dimension, None where it is impossible."""
        largest = int(self.config.max_batch_size)
        return largest if largest >= 0 else None

    @property
    def parameters(self) -> Mapping[str, str]:
        """The values of config.pbtxt's parameters by their names."""
        return {key: value.string_value for key, value in self.config.parameters.items()}

    def finding(self, severity: Severity, line: int, problem: str, remedy: str) -> Finding:
        """Return a finding in a line of config.pbtxt."""
        return Finding(
            file=self.file,
            line=line if self.file != self.folder else None,
            severity=severity,
            model=self.name,
            problem=problem,
            remedy=remedy,
        )

    def error(self, line: int, problem: str, remedy: str) -> Finding:
        """Return an error in a line of config.pbtxt."""
        return self.finding(Severity.ERROR, line, problem, remedy)

    def warning(self, line: int, problem: str, remedy: str) -> Finding:
        """Return a warning in a line of config.pbtxt."""
        return self.finding(Severity.WARNING, line, problem, remedy)

    def parameter_line(self, name: str) -> int:
        """Return the line of a parameter's value, that of the file's beginning if it has none."""
        return self.lines.entry("parameters", name).line

    def versions(self) -> list[int]:
        """Return the versions that there are folders of, the oldest first."""
        return version_folders(self.folder)

    def loaded_versions(self) -> list[int]:
        """Return the versions that Triton loads, there or not: the newest by default."""
        policy = self.config.version_policy
        if policy.HasField("specific"):
            return sorted(policy.specific.versions)
        there = self.versions()
        if policy.HasField("all"):
            return there
        return there[-max(1, policy.latest.num_versions) :]


def version_folders(folder: Path) -> list[int]:
    """Return the versions that a model's folder holds, the oldest first."""
    return sorted(
        int(p.name) for p in folder.iterdir() if p.is_dir() and _VERSION.fullmatch(p.name)
    )


def enum_name(message: Any, field: str) -> str:
    """Return the name of an enumeration's value that a field holds, such as TYPE_FP32."""
    values = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number
    return str(values[getattr(message, field)].name)


def model_folders(repository: Path) -> list[Path]:
    """Return the folders of a repository, whether models or not.

    Raises:
        RepositoryError: It is no folder of model folders.
    """
    if not repository.is_dir():
        raise RepositoryError(
            f"model repository {repository} is not a folder; give a folder of model folders"
        )
    if (repository / CONFIG_NAME).is_file():
        raise RepositoryError(
            f"{repository} is a model's folder; give the folder around it, {repository}/.."
        )
    folders = sorted(path for path in repository.iterdir() if path.is_dir())
    if not folders:
        raise RepositoryError(
            f"model repository {repository} holds no model; "
            "each model is a folder with a config.pbtxt and a version folder such as 1/"
        )
    return folders


def read_model(folder: Path) -> Model | Finding:
    """Return the model in a folder, or why there is none that could be looked at.

    Raises:
        ServerError: Triton's gRPC client is not installed.
    """
    file = folder / CONFIG_NAME
    if not file.is_file():
        if not version_folders(folder):
            return _unreadable(
                folder,
                None,
                "this is no model, and Triton does not start beside such a folder: it has neither "
                "a config.pbtxt nor a version folder",
                "move it elsewhere, or into a model",
            )
        backend = needed_backend(read_model_folder(folder))
        return Model(folder, folder, parse_config("", file), Block(1, ()), backend)
    try:
        text = as_unicode(read_config(file))
        config = parse_config(text, file)
    except OSError as error:
        return _unreadable(file, None, f"it cannot be read: {error.strerror}", "make it readable")
    except ModelConfigError as error:
        return _unreadable(
            file,
            error.line,
            f"this is no model configuration that Triton knows: {error.reason}",
            "correct it; nothing else of this model was checked",
        )
    backend = needed_backend(read_model_folder(folder))
    return Model(folder, file, config, read_lines(text), backend)


def _unreadable(path: Path, line: int | None, problem: str, remedy: str) -> Finding:
    return Finding(
        file=path,
        line=line,
        severity=Severity.ERROR,
        model=path.parent.name if path.name == CONFIG_NAME else path.name,
        problem=problem,
        remedy=remedy,
    )
