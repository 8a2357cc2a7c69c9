"""Ensembles of a model repository: their steps, the network's file, and what the stages do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap.errors import UnsupportedError
from endcap.triton.model_config import CONFIG_NAME, read_model_config

PREPROCESS_BACKEND = "endcap_preprocess"
POSTPROCESS_BACKEND = "endcap_postprocess"

_SIDE_INPUTS = ("geometry", "status")  # of postprocess; its others are the network's heads
_DEFAULT_FILE = "model.onnx"
# Read by the backends themselves; they change no result.
_OF_BACKENDS = ("threads", "max_queue_cost", "labels_file", "labels_separator")


@dataclass(frozen=True)
class Step:
    """One step: where its model lies, and the ensemble's names of its tensors by its own."""

    folder: Path
    version: int  # -1 is the newest
    config: Any  # inference.ModelConfig; an empty one where the folder has none
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    @property
    def parameters(self) -> dict[str, str]:
        """The model's parameters as text, by name."""
        return {name: value.string_value for name, value in self.config.parameters.items()}

    @property
    def stage_parameters(self) -> dict[str, Any]:
        """Those of preprocess or postprocess that the core knows."""
        return {name: text for name, text in self.parameters.items() if name not in _OF_BACKENDS}


@dataclass(frozen=True)
class ServedEnsemble:
    """An ensemble of a repository; `labels_text` is its parameter `labels`, "" without one."""

    name: str
    steps: tuple[Step, ...]
    labels_text: str = ""

    def steps_in(self, backend: str) -> list[Step]:
        """Return the steps whose models run in a backend."""
        return [step for step in self.steps if step.config.backend == backend]


@dataclass(frozen=True)
class ServedNetwork:
    """The step between preprocess and postprocess.

    Attributes:
        outputs: The network's names of its outputs, by those of postprocess' inputs, such as
            `head`.
        preprocess: The parameters of the step before it that the core knows, as text by name.
        postprocess: Those of the step after it.
    """

    step: Step
    outputs: Mapping[str, str]
    preprocess: dict[str, Any]
    postprocess: dict[str, Any]

    def find_file(self) -> Path | None:
        """Return the ONNX file that the step serves, None where it serves none."""
        folder, wanted = self.step.folder, self.step.version
        versions = sorted(
            (int(path.name), path)
            for path in folder.glob("*")
            if path.is_dir() and path.name.isdecimal() and wanted in (-1, int(path.name))
        )
        given = self.step.config.default_model_filename
        name = given if given.endswith(".onnx") else _DEFAULT_FILE
        file = versions[-1][1] / name if versions else None
        return file if file is not None and file.is_file() else None


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
        config.parameters["labels"].string_value if "labels" in config.parameters else "",
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
                outputs = {name: own[of] for name, of in heads.items()}
                stages = before[0].stage_parameters, after[0].stage_parameters
                return ServedNetwork(step, outputs, *stages)
    raise UnsupportedError(
        f"{ensemble.name} is not made of one step in {PREPROCESS_BACKEND}, one network that takes "
        f"its images, and one step in {POSTPROCESS_BACKEND} that takes the network's outputs; only "
        "such an ensemble can be run without a server"
    )
