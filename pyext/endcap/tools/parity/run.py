"""The plan of `endcap parity`: what to compare, and the parameters of a repository to set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from endcap.errors import InvalidArgumentError
from endcap.evaluation.annotations import Dataset
from endcap.evaluation.errors import EvaluationError
from endcap.repository.errors import RepositoryError
from endcap.repository.input_normalization import Normalization, read_normalization
from endcap.repository.onnx_file import read_onnx
from endcap.tools.config_changes import ConfigChange
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
from endcap.triton.config_edits import set_parameter
from endcap.triton.ensemble import (
    POSTPROCESS_BACKEND,
    PREPROCESS_BACKEND,
    ServedEnsemble,
    find_network,
    read_ensemble,
    stage_parameters,
)
from endcap.triton.labels import parse_labels
from endcap.triton.model_config import CONFIG_NAME, read_config
from endcap.triton.model_folder import read_repository

# What the network's input decides; changing it takes another network or another export.
_USUAL_ENSEMBLE = "detect"
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


def find_ensemble(repository: Path) -> str:
    """Return the name of the ensemble to compare: detect, else the only one.

    Raises:
        InvalidArgumentError: There are none or several.
    """
    if (repository / _USUAL_ENSEMBLE).is_dir() or not repository.is_dir():
        return _USUAL_ENSEMBLE
    ensembles = [model.path.name for model in read_repository(repository) if model.steps]
    if len(ensembles) != 1:
        has = (
            f"has the ensembles {', '.join(sorted(ensembles))}" if ensembles else "has no ensemble"
        )
        raise InvalidArgumentError(f"{repository} {has}; name one with --model")
    return ensembles[0]


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
        return self.tensors.ok and (self.rules is None or self.rules.ok)

    @property
    def settings(self) -> dict[str, str]:
        """The parameters to set, of preprocess and postprocess."""
        of_rules = self.rules.causes if self.rules else ()
        found = {name: value for each in of_rules for name, value in each.parameters.items()}
        return {**(self.tensors.settings if self.tensors.is_mended else {}), **found}

    @property
    def causes(self) -> tuple[Cause, ...]:
        """All causes: of the tensors, then of the detections."""
        return self.tensors.causes + (self.rules.causes if self.rules else ())

    def to_json(self) -> dict[str, Any]:
        """Return it as an object of JSON."""
        return {
            **self.tensors.to_json(),
            "settings": self.settings,
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
    network = _open_network(plan)
    postprocessing = (
        Postprocessing(parameters=plan.served.postprocess, outputs=plan.served.outputs)
        if plan.served
        else None
    )
    _check_detections(plan, network is not None)
    training_postprocess = (
        load_postprocess(plan.postprocess, postprocessing.make().parameters)
        if plan.postprocess and postprocessing
        else None
    )
    inside, note = _read_normalization(network)
    tensors = compare_tensors(
        plan.images,
        pipeline,
        parameters,
        progress=progress,
        has_network=network is not None,
        inside=inside,
    )
    if note:
        tensors = replace(tensors, notes=(*tensors.notes, note))
    if network is None:
        return ParityReport(tensors=tensors)
    try:
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
    except EvaluationError as error:  # as of a network that takes no such tensor
        if tensors.before is not None:
            raise
        note = f"the network's outputs were not compared: {error}"
        return ParityReport(tensors=replace(tensors, notes=(*tensors.notes, note)))
    if training_postprocess is None or postprocessing is None:
        return ParityReport(tensors=tensors, outputs=outputs)
    heads = [network.run(each.training) for each in tensors.images]
    with progress("rules tried", None) as advance:
        rules = compare_rules(heads, postprocessing, training_postprocess, on_step=advance)
    return ParityReport(tensors=tensors, outputs=outputs, rules=rules)


def _check_detections(plan: ParityPlan, has_network: bool) -> None:
    """Raise InvalidArgumentError where detections are asked for, and there is none."""
    for option, is_given in (
        ("--training-postprocess", plan.postprocess is not None),
        ("--annotations", plan.dataset is not None),
    ):
        if is_given and (not has_network or plan.served is None):
            raise InvalidArgumentError(
                f"{option} needs the network and the postprocessing: give --repository, and "
                "--network where the repository has no ONNX file"
            )
        if is_given and plan.served and plan.served.postprocess.get("head") == "classification":
            raise InvalidArgumentError(f"{option} is for detectors; leave it out for a classifier")


def _open_network(plan: ParityPlan) -> Network | None:
    file = plan.network or (plan.served.network if plan.served else None)
    return Network(file) if file is not None else None


def _read_normalization(network: Network | None) -> tuple[Normalization | None, str]:
    """Return what a network does to its images first, or why that is not known."""
    if network is None:
        return None, ""
    try:
        return read_normalization(read_onnx(network.file)), ""
    except RepositoryError as error:
        return None, f"whether the network itself normalises is not known: {error}"


def _labels(served: Served | None) -> Sequence[str] | None:
    text = served.ensemble.labels_text if served else ""
    return parse_labels(text) if text else None


def config_changes(served: Served, report: ParityReport) -> tuple[list[ConfigChange], list[str]]:
    """Return the changes of a repository that a report asks for, and what is left to the user.

    Raises:
        InvalidArgumentError: A config.pbtxt in which a parameter cannot be set.
    """
    settings = report.tensors.settings if report.tensors.is_mended else {}
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
