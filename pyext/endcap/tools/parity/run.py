"""The plan of `endcap parity`: what to compare, and the parameters of a repository to set."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap.errors import InvalidArgumentError
from endcap.evaluation.annotations import Dataset
from endcap.evaluation.errors import EvaluationError
from endcap.tools.parity.causes import Cause
from endcap.tools.parity.nms_rules import RulesReport, compare_rules, load_postprocess
from endcap.tools.parity.outputs import Network, OutputsReport, Postprocessing, compare_outputs
from endcap.tools.parity.pipelines import load_pipeline
from endcap.tools.parity.tensors import (
    ShowProgress,
    TensorsReport,
    compare_tensors,
    make_preprocessor,
)
from endcap.triton.ensemble import (
    POSTPROCESS_BACKEND,
    PREPROCESS_BACKEND,
    ServedEnsemble,
    find_network,
    read_ensemble,
    stage_parameters,
)
from endcap.triton.labels import parse_labels
from endcap.triton.model_config import CONFIG_NAME, read_config, set_parameter, write_config

# What the network's input decides; changing it takes another network or another export.
_OF_NETWORK = ("size", "layout", "dtype")


@dataclass(frozen=True, kw_only=True)
class Served:
    """An ensemble of a repository.

    Attributes:
        ensemble: The ensemble.
        preprocess, postprocess: Parameters of its stages.
        network: The ONNX file between them; None where there is none.
        outputs: The network's names of its outputs, by those of postprocess' inputs.
    """

    ensemble: ServedEnsemble
    preprocess: Mapping[str, str]
    postprocess: Mapping[str, str]
    network: Path | None
    outputs: Mapping[str, str]

    def config(self, backend: str) -> Path:
        """Return the config.pbtxt of the stage in a backend."""
        return self.ensemble.steps_in(backend)[0].folder / CONFIG_NAME


def read_served(repository: Path, model: str) -> Served:
    """Return an ensemble of a repository.

    Raises:
        ServerError: A configuration that cannot be read.
        UnsupportedError: The model is no ensemble of preprocess, network and postprocess.
    """
    ensemble = read_ensemble(repository, model)
    network = find_network(ensemble)
    return Served(
        ensemble=ensemble,
        preprocess=stage_parameters(ensemble, PREPROCESS_BACKEND),
        postprocess=stage_parameters(ensemble, POSTPROCESS_BACKEND),
        network=network.find_file(),
        outputs=network.outputs,
    )


@dataclass(frozen=True, kw_only=True)
class ParityPlan:
    """What to compare.

    Attributes:
        images: Files.
        training: The training pipeline, see `pipelines.load_pipeline`.
        parameters: Endcap's of preprocess, where `served` is None.
        served: The ensemble whose parameters and network are taken.
        network: An ONNX file, which wins over that of the ensemble; None takes that, or none.
        postprocess: The training's postprocessing, see `nms_rules.load_postprocess`; None compares
            no rules of suppression.
        dataset: Annotations of the images; None measures no accuracy.
    """

    images: Sequence[Path]
    training: str
    parameters: Mapping[str, str]
    served: Served | None = None
    network: Path | None = None
    postprocess: str | None = None
    dataset: Dataset | None = None


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """What was found; outputs and rules are None where they were not compared."""

    tensors: TensorsReport
    outputs: OutputsReport | None = None
    rules: RulesReport | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing differs and no image failed."""
        return self.tensors.ok and (self.rules is None or not self.rules.causes)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """All causes: of the tensors, then of the detections."""
        return self.tensors.causes + (self.rules.causes if self.rules else ())

    def to_json(self) -> dict[str, Any]:
        """Return it as an object of JSON."""
        return {
            **self.tensors.to_json(),
            "outputs": self.outputs.to_json() if self.outputs else None,
            "suppression": self.rules.to_json() if self.rules else None,
        }


def run(plan: ParityPlan, *, progress: ShowProgress) -> ParityReport:
    """Carry out a plan.

    Raises:
        EndcapError: Something cannot be compared, or a package is missing.
    """
    if not plan.images:
        raise InvalidArgumentError("no image was given; give files or a folder of images")
    parameters = plan.served.preprocess if plan.served else plan.parameters
    size = make_preprocessor(parameters).parameters["size"].split(",")
    pipeline = load_pipeline(plan.training, (int(size[0]), int(size[1])))
    training_postprocess = load_postprocess(plan.postprocess) if plan.postprocess else None
    network = _open_network(plan)
    postprocessing = (
        Postprocessing(parameters=plan.served.postprocess, outputs=plan.served.outputs)
        if plan.served
        else None
    )
    if training_postprocess is not None and (network is None or postprocessing is None):
        raise InvalidArgumentError(
            "--training-postprocess needs the network and the postprocessing: give --repository, "
            "and --network where the repository has no ONNX file"
        )
    tensors = compare_tensors(
        plan.images, pipeline, parameters, progress=progress, has_network=network is not None
    )
    if network is None:
        return ParityReport(tensors=tensors)
    with progress("network", len(tensors.images)) as advance:
        outputs = compare_outputs(
            network,
            tensors.images,
            tensors.geometries(),
            parameters,
            postprocessing,
            dataset=plan.dataset,
            labels=_labels(plan.served),
            on_image=advance,
        )
    if training_postprocess is None or postprocessing is None:
        return ParityReport(tensors=tensors, outputs=outputs)
    heads = [network.run(each.training) for each in tensors.images]
    with progress("rules tried", None) as advance:
        rules = compare_rules(heads, postprocessing, training_postprocess, on_step=advance)
    return ParityReport(tensors=tensors, outputs=outputs, rules=rules)


def _open_network(plan: ParityPlan) -> Network | None:
    file = plan.network or (plan.served.network if plan.served else None)
    if file is not None:
        return Network(file)
    if plan.dataset is not None:
        raise EvaluationError(
            "--annotations needs the network; give its ONNX file with --network FILE.onnx"
        )
    return None


def _labels(served: Served | None) -> Sequence[str] | None:
    text = served.ensemble.labels_text if served else ""
    return parse_labels(text) if text else None


@dataclass(frozen=True)
class ConfigChange:
    """A config.pbtxt, and its text before and after.

    Attributes:
        file: The file.
        before, after: Its text.
    """

    file: Path
    before: str
    after: str

    def diff(self) -> str:
        """Return the difference in unified form."""
        lines = difflib.unified_diff(
            self.before.splitlines(),
            self.after.splitlines(),
            str(self.file),
            str(self.file),
            lineterm="",
        )
        return "\n".join(lines)

    def write(self) -> None:
        """Replace the file."""
        write_config(self.file, self.after)


def config_changes(served: Served, report: ParityReport) -> tuple[list[ConfigChange], list[str]]:
    """Return the changes of a repository that a report asks for, and what is left to the user.

    Raises:
        InvalidArgumentError: A config.pbtxt in which a parameter cannot be set.
    """
    settings = report.tensors.settings
    left = [f"{name}={value}" for name, value in settings.items() if name in _OF_NETWORK]
    of_stage = {
        PREPROCESS_BACKEND: {
            name: value for name, value in settings.items() if name not in _OF_NETWORK
        },
        POSTPROCESS_BACKEND: {
            name: value
            for cause in (report.rules.causes if report.rules else ())
            for name, value in cause.parameters.items()
        },
    }
    changes = []
    for backend, parameters in of_stage.items():
        if parameters:
            file = served.config(backend)
            before = after = read_config(file)
            for name, value in parameters.items():
                after = set_parameter(after, name, value)
            changes.append(ConfigChange(file, before, after))
    return changes, left
