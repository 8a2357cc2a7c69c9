"""endcap validate and the server agree on damaged models, and on those of the shared server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import served_models
from damaged_repositories import DAMAGES, Damage, copy_model
from echo_model import ECHO, TENSORS, write_model
from running_server import run_server

from endcap.repository.validation import Finding, Severity, validate_repository

STEP = '{{ model_name: "{}" model_version: -1 input_map {{ {} }} output_map {{ {} }} }}'


def ensemble(*steps: tuple[str, str, str], tensors: str = TENSORS) -> str:
    """An ensemble of models x -> y; a step is a model and the ensemble's names of x and y."""
    written = ",".join(
        STEP.format(model, f'key: "x" value: "{x}"', f'key: "y" value: "{y}"')
        for model, x, y in steps
    )
    return f'platform: "ensemble" {tensors} ensemble_scheduling {{ step [ {written} ] }}'


INTEGERS = TENSORS.replace("FP32", "INT32")
ENSEMBLES = {
    "plain": ensemble(("echo", "x", "y")),
    "of_ensemble": ensemble(("plain", "x", "y")),
    "free_dims": ensemble(("echo", "x", "y"), tensors=TENSORS.replace("[ 1 ]", "[ -1 ]")),
    "whole_shapes": ensemble(
        ("echo", "x", "y"), tensors=TENSORS.replace("[ 1 ]", "[ -1, 1 ]").replace(": 4", ": 0")
    ),
    "circle": ensemble(("echo", "b", "a"), ("echo", "a", "b"), ("echo", "x", "y")),
    "itself": ensemble(("itself", "x", "y")),
    "twice": ensemble(("echo", "x", "y"), ("echo", "x", "y")),
    "left_over": ensemble(("echo", "x", "y"), ("echo", "x", "z")),
    "types": ensemble(("echo", "x", "a"), ("integers", "a", "y"), tensors=TENSORS),
    "rank": ensemble(("echo", "x", "y"), tensors=TENSORS.replace("[ 1 ]", "[ 1, 1 ]")),
    "above": ensemble(("echo", "x", "y"), tensors=TENSORS.replace(": 4", ": 8")),
    "no_steps": ensemble(),
}
# What they call, sent by a model of each name: undamaged.
CALLED = ("preprocess", "detector", "postprocess")


SERVED = {name: damage for name, damage in DAMAGES.items() if not damage.hangs}


def folder_name(name: str, damage: Damage) -> str:
    return f"{damage.model}_{name}"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every damaged model under a name of its own, beside what the ensembles call."""
    folder = tmp_path_factory.mktemp("damaged")
    for model in CALLED:
        copy_model(model, folder)
    for name, damage in SERVED.items():
        damage.apply(copy_model(damage.model, folder, name=folder_name(name, damage)))
    write_model(folder, "echo", 'backend: "python"' + TENSORS, ECHO)
    write_model(folder, "integers", 'backend: "python"' + INTEGERS, ECHO)
    for name, config in ENSEMBLES.items():
        write_model(folder, name, config)
    return folder


@pytest.fixture(scope="module")
def states(repository: Path) -> Iterator[dict[str, str]]:
    """Name -> state of every model that the server has heard of."""
    options = ("--model-control-mode=explicit", "--load-model=*")
    with run_server(repository, *options) as server:
        yield {name: model.get("state", "") for name, model in server.index().items()}


@pytest.fixture(scope="module")
def findings(repository: Path) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in validate_repository(repository).findings:
        found.setdefault(finding.model, []).append(finding)
    return found


@pytest.mark.parametrize("name", SERVED)
def test_the_server_refuses_what_is_an_error(
    name: str, states: dict[str, str], findings: dict[str, list[Finding]]
) -> None:
    damage = DAMAGES[name]
    model = folder_name(name, damage)
    (finding,) = findings[model]
    assert finding.severity == damage.severity
    assert (states.get(model) == "READY") == damage.loads


@pytest.mark.parametrize("name", ["echo", "integers", *CALLED, *ENSEMBLES])
def test_the_server_loads_what_has_no_error(
    name: str, states: dict[str, str], findings: dict[str, list[Finding]]
) -> None:
    errors = [f for f in findings.get(name, []) if f.severity is Severity.ERROR]
    assert (states.get(name) == "READY") == (errors == [])


def test_nothing_is_wrong_with_the_models_of_the_shared_server(tmp_path: Path) -> None:
    served_models.write_all(tmp_path)
    assert validate_repository(tmp_path).findings == []
