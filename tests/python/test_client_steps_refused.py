"""Ensembles whose steps a client cannot take, and configurations that are none."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from steps_by_hand import Json, read_configs, read_steps, v8

from endcap.client.calls import OutputTensor
from endcap.client.errors import ClientError
from endcap.client.steps import ClientPipeline
from endcap.errors import InvalidArgumentError, UnsupportedError

SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"


@pytest.fixture
def configs() -> dict[str, Json]:
    """Those of a YOLOv8, to change."""
    return copy.deepcopy(v8())


@pytest.mark.parametrize("model", ["cascade", "cascade_bls", "detect_bls", "preprocess"])
def test_what_is_no_ensemble_is_refused(model: str) -> None:
    with pytest.raises(UnsupportedError, match=f"model '{model}' is no ensemble"):
        read_steps(read_configs(SHIPPED), model)


def test_a_pinned_version_is_refused(configs: dict[str, Json]) -> None:
    configs["detect"]["ensemble_scheduling"]["step"][1]["model_version"] = "3"
    with pytest.raises(UnsupportedError, match="takes version 3 of model 'detector'"):
        read_steps(configs)


def test_steps_come_in_the_order_in_which_they_can_be_taken(configs: dict[str, Json]) -> None:
    configs["detect"]["ensemble_scheduling"]["step"].reverse()
    steps = read_steps(configs)
    assert [step.place.model for step in steps.steps] == ["preprocess", "detector", "postprocess"]
    configs["detect"]["ensemble_scheduling"]["step"][1]["input_map"]["images"] = "nothing"
    with pytest.raises(UnsupportedError, match="the steps postprocess, detector wait for tensors"):
        read_steps(configs)


def _foreign_preprocess(configs: dict[str, Json]) -> None:
    configs["preprocess"]["backend"] = "dali"


def _regions(configs: dict[str, Json]) -> None:
    configs["preprocess"]["input"].append({"name": "rois", "data_type": "TYPE_FP32"})
    configs["preprocess"]["input"][-1]["dims"] = [-1, 4]
    configs["preprocess"]["max_batch_size"] = 0


def _unknown_parameter(configs: dict[str, Json]) -> None:
    configs["preprocess"]["parameters"]["sharpen"] = {"string_value": "true"}


def _other_tensors(configs: dict[str, Json]) -> None:
    configs["preprocess"]["output"][0]["dims"] = ["3", "32", "32"]


def _foreign_postprocess(configs: dict[str, Json]) -> None:
    configs["postprocess"].update(backend="python", parameters={})


def _without_head(configs: dict[str, Json]) -> None:
    del configs["detect"]["ensemble_scheduling"]["step"][2]["input_map"]["head"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without_head, "the step postprocess does not say where its head comes from"),
        (_foreign_preprocess, "which are not endcap_preprocess alone; let the server do it"),
        (_regions, "takes regions of an image"),
        (_unknown_parameter, "'sharpen' is not a parameter of this model"),
        (_other_tensors, "output 'images' is TYPE_FP32 [3, 32, 32] in the config"),
        (_foreign_postprocess, "no step of ensemble 'detect' runs in endcap_postprocess"),
    ],
)
def test_a_step_that_cannot_be_taken_here_is_refused(
    configs: dict[str, Json], change: Callable[[dict[str, Json]], None], said: str
) -> None:
    change(configs)
    steps = read_steps(configs)
    with pytest.raises(UnsupportedError) as failure:
        ClientPipeline(steps)
    assert said in str(failure.value)


def test_classification_by_the_server_needs_its_postprocess() -> None:
    wanted = [OutputTensor("detection_scores", class_count=2)]
    with pytest.raises(InvalidArgumentError, match="give postprocess='server'"):
        ClientPipeline(read_steps(v8()), outputs=wanted)


_KINDS: dict[tuple[Any, ...], type] = {
    ("max_batch_size",): int,
    ("input",): list,
    ("input", 0): dict,
    ("input", 0, "dims"): list,
    ("input", 0, "dims", 0): int,
    ("input", 0, "name"): str,
    ("parameters",): dict,
    ("ensemble_scheduling",): dict,
    ("ensemble_scheduling", "step"): list,
    ("ensemble_scheduling", "step", 0): dict,
    ("ensemble_scheduling", "step", 0, "input_map"): dict,
    ("ensemble_scheduling", "step", 0, "input_map", "encoded"): str,
    ("ensemble_scheduling", "step", 0, "model_version"): int,
}
_VALUES = (None, 1.5, True, "text", ["text"], {"text": 1})


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (place, wrong)
        for place, kind in _KINDS.items()
        for wrong in _VALUES
        if type(wrong) is not kind
    ],
    ids=str,
)
def test_a_configuration_of_the_wrong_kind_is_one_sentence(
    configs: dict[str, Json], place: Sequence[Any], wrong: Any
) -> None:
    row: Any = configs["detect"]
    for key in place[:-1]:
        row = row[key]
    row[place[-1]] = wrong
    with pytest.raises(
        ClientError, match="the configuration of model 'detect' cannot be read: "
    ) as e:
        read_steps(configs)
    assert str(e.value).count("\n") == 0
