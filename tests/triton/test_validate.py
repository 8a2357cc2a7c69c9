"""endcap validate and the server agree on damaged models, and on those of the shared server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from endcap.repository.validation import Finding, validate_repository
from tests.support.damage import Damage, copy_model
from tests.support.damaged_repositories import DAMAGES
from tests.support.echo_ensembles import LOADED, REFUSED, write_called
from tests.support.echo_model import write_model
from tests.triton import served_models
from tests.triton.bad_configs import BAD, BAD_POSTPROCESS, BAD_ROIS
from tests.triton.model_folders import VARIANTS, write_postprocess, write_preprocess
from tests.triton.running_server import run_server

# What the damaged ensemble of the shipped repository calls.
CALLED = ("preprocess", "detector", "postprocess")


ENSEMBLES = {**LOADED, **{name: config for name, (config, _, _) in REFUSED.items()}}
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
    write_called(folder)
    for name, config in ENSEMBLES.items():
        write_model(folder, name, config)
    return folder


@pytest.fixture(scope="module")
def states(repository: Path) -> Iterator[dict[str, str]]:
    """Name -> state of every model that the server lists."""
    options = ("--model-control-mode=explicit", "--load-model=*")
    with run_server(repository, *options) as server:
        yield {name: model.get("state", "") for name, model in server.index().items()}


@pytest.fixture(scope="module")
def findings(repository: Path) -> dict[str, list[Finding]]:
    by_model: dict[str, list[Finding]] = {}
    for finding in validate_repository(repository).findings:
        by_model.setdefault(finding.model, []).append(finding)
    return by_model


@pytest.mark.parametrize("name", SERVED)
def test_the_server_refuses_what_is_an_error(
    name: str, states: dict[str, str], findings: dict[str, list[Finding]]
) -> None:
    damage = DAMAGES[name]
    model = folder_name(name, damage)
    (finding,) = findings[model]
    assert finding.severity == damage.severity
    assert (states.get(model) == "READY") == damage.loads


@pytest.mark.parametrize("name", ["echo", *CALLED, *LOADED])
def test_the_server_loads_what_is_right(
    name: str, states: dict[str, str], findings: dict[str, list[Finding]]
) -> None:
    assert name not in findings
    assert states[name] == "READY"


@pytest.mark.parametrize("name", REFUSED)
def test_the_server_refuses_ensembles_with_an_error(
    name: str, states: dict[str, str], findings: dict[str, list[Finding]]
) -> None:
    assert [finding.severity for finding in findings[name]] == ["error"]
    assert states.get(name) != "READY"


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_wrong_with_the_models_of_the_shared_server(
    tmp_path: Path, variant: str
) -> None:
    served_models.write_all(tmp_path, variant)
    assert validate_repository(tmp_path).findings == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", sorted({*BAD} - {"not_in_this_build"}))  # up to the machine
def test_what_endcaps_models_refuse_is_an_error(name: str, tmp_path: Path, variant: str) -> None:
    write = write_postprocess if name in BAD_POSTPROCESS else write_preprocess
    max_batch_size = 0 if name in BAD_ROIS else 4
    write(tmp_path, name, variant=variant, max_batch_size=max_batch_size, **BAD[name][0])
    findings = validate_repository(tmp_path).findings
    assert [(f.severity.value, f.file) for f in findings] == [
        ("error", tmp_path / name / "config.pbtxt")
    ]
