"""The steps of an ensemble as a repository tells them, and the network among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap.errors import UnsupportedError
from endcap.evaluation.errors import EvaluationError
from endcap.triton.model_config import CONFIG_NAME, read_model_config

PREPROCESS_BACKEND = "endcap_preprocess"
POSTPROCESS_BACKEND = "endcap_postprocess"

_SIDE_INPUTS = ("geometry", "status")  # of postprocess; its others are the network's heads
_DEFAULT_FILE = "model.onnx"


@dataclass(frozen=True)
class Step:
    """One step: where its model lies, and the ensemble's names of its tensors by its own."""

    folder: Path
    version: int  # -1 is the newest
    config: Any  # inference.ModelConfig; an empty one where the folder has none
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True)
class ServedEnsemble:
    """An ensemble of a repository."""

    name: str
    steps: tuple[Step, ...]

    def steps_in(self, backend: str) -> list[Step]:
        """Return the steps whose models run in a backend."""
        return [step for step in self.steps if step.config.backend == backend]


@dataclass(frozen=True)
class ServedNetwork:
    """The step between preprocess and postprocess.

    Attributes:
        outputs: The network's names of its outputs, by those of postprocess' inputs, such as
            `head`.
    """

    step: Step
    outputs: Mapping[str, str]

    def find_file(self) -> Path:
        """Return the ONNX file that the step serves. Raises EvaluationError when it has none."""
        folder, wanted = self.step.folder, self.step.version
        versions = sorted(
            (int(path.name), path)
            for path in folder.glob("*")
            if path.is_dir() and path.name.isdecimal() and wanted in (-1, int(path.name))
        )
        given = self.step.config.default_model_filename
        name = given if given.endswith(".onnx") else _DEFAULT_FILE
        if not versions or not (versions[-1][1] / name).is_file():
            place = versions[-1][1] if versions else folder
            raise EvaluationError(
                f"{place} has no {name}, and the comparison runs the network as an ONNX file; "
                "give it with --network FILE.onnx"
            )
        return versions[-1][1] / name


def read_ensemble(repository: Path, model: str) -> ServedEnsemble:
    """Return an ensemble's steps. Raises ServerError for a configuration that cannot be read."""
    config = read_model_config(repository / model)
    return ServedEnsemble(
        model,
        tuple(
            Step(
                repository / step.model_name,
                step.model_version or -1,
                _config(repository / step.model_name, type(config)),
                dict(step.input_map),
                dict(step.output_map),
            )
            for step in config.ensemble_scheduling.step
        ),
    )


def _config(folder: Path, empty: type[Any]) -> Any:
    return read_model_config(folder) if (folder / CONFIG_NAME).is_file() else empty()


def find_network(ensemble: ServedEnsemble) -> ServedNetwork:
    """Return the one step that makes the heads that postprocess reads from what preprocess gives.

    Raises:
        UnsupportedError: The ensemble has other steps between the two, or not both.
    """
    before, after = (
        ensemble.steps_in(backend) for backend in (PREPROCESS_BACKEND, POSTPROCESS_BACKEND)
    )
    if len(before) == len(after) == 1:
        images = before[0].outputs.get("images")
        heads = {name: of for name, of in after[0].inputs.items() if name not in _SIDE_INPUTS}
        for step in ensemble.steps:
            own = {of: name for name, of in step.outputs.items()}
            if images in step.inputs.values() and heads and own.keys() >= set(heads.values()):
                return ServedNetwork(step, {name: own[of] for name, of in heads.items()})
    raise UnsupportedError(
        f"{ensemble.name} is not made of one step in {PREPROCESS_BACKEND}, one network that takes "
        f"its images, and one step in {POSTPROCESS_BACKEND} that takes the network's outputs; the "
        "comparison imitates only such an ensemble"
    )
