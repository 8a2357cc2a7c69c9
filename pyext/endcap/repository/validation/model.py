"""One model of a repository, as the checks see it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap.repository.validation.finding import Finding, Severity
from endcap.triton.config_text import Block

_VERSION = re.compile("0|[1-9][0-9]*")  # Triton passes 01 over
_STAGE = re.compile(
    rb"^from endcap\.python_backend\.(pre|post)process_(dali_)?stage import ", re.MULTILINE
)

# endcap's backends, which name its stages also where they run in Python models.
PREPROCESS, POSTPROCESS = "endcap_preprocess", "endcap_postprocess"


@dataclass(frozen=True)
class Model:
    """A folder and what its config.pbtxt says.

    Attributes:
        file: config.pbtxt, or the folder where there is none.
        config: The inference.ModelConfig message; an empty one where there is no file.
        lines: Where each field of it stands.
        backend: The one that Triton would take; "" for an ensemble, or where none can be told.
    """

    folder: Path
    file: Path
    config: Any
    lines: Block
    backend: str

    @property
    def name(self) -> str:
        """What the model is called: its folder's name."""
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
        found = self._stage_in_python()
        if found is None:
            return ""
        return PREPROCESS if found.group(1) == b"pre" else POSTPROCESS

    @property
    def runs_dali(self) -> bool:
        """Whether it is a stage that a DALI pipeline of endcap's Python model runs."""
        found = self._stage_in_python()
        return found is not None and found.group(2) is not None

    def _stage_in_python(self) -> re.Match[bytes] | None:
        for version in reversed(self.loaded_versions() if self.backend == "python" else []):
            file = self.folder / str(version) / "model.py"
            found = _STAGE.search(file.read_bytes()) if file.is_file() else None
            if found:
                return found
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
        """Return the versions that Triton loads, there or not: the newest one unless told."""
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
