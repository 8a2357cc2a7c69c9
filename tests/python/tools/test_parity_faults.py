"""Faults of a training pipeline, each named by `endcap parity`, alone and in pairs."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from training_faults import FAULTS, SIZE, Training, pairs, write_images

from endcap.tools.parity.pipelines import TrainingPipeline
from endcap.tools.parity.tensors import TensorsReport, compare_tensors

_SEED, _PAIRS = 33, 20
# Parameters that preprocess does not have; for everything else its own make equal tensors.
_WITHOUT_PARAMETER = {"centers", "sides", "offset", "decoder", "matrix"}


@contextlib.contextmanager
def no_progress(name: str, total: int | None) -> Iterator[Callable[[], None]]:
    yield lambda: None


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_images(tmp_path_factory.mktemp("images"))


def compare(images: list[Path], training: Training) -> TensorsReport:
    size = f"{SIZE[0]},{SIZE[1]}"
    pipeline = TrainingPipeline("training", training)
    return compare_tensors(images, pipeline, {"size": size}, progress=no_progress)


def test_a_correct_pipeline_has_no_fault(images: list[Path]) -> None:
    report = compare(images, Training())
    assert report.causes == ()
    assert report.before is not None
    assert report.before.equal > 0.999
    assert report.ok


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(images: list[Path], name: str) -> None:
    fault = FAULTS[name]
    report = compare(images, fault.on(Training()))
    assert {cause.name for cause in report.causes} == fault.causes
    (cause,) = report.causes
    assert cause.training != cause.endcap
    assert cause.parameters or cause.advice
    assert report.unexplained_steps < 0.1
    if report.before is not None and name != "nearest":  # of which OpenCV and Pillow have their own
        assert report.before.mean > 0.05
        is_settable = not fault.causes & _WITHOUT_PARAMETER and name != "truncating rounding"
        assert (report.after is not None) == is_settable
        if report.after is not None:
            assert report.after.mean < 0.01
            assert report.after.mean < report.before.mean / 10


@pytest.mark.parametrize("pair", random.Random(_SEED).sample(pairs(), _PAIRS), ids=" and ".join)
def test_two_faults_are_named(images: list[Path], pair: tuple[str, str]) -> None:
    first, second = (FAULTS[name] for name in pair)
    report = compare(images, second.on(first.on(Training())))
    assert {cause.name for cause in report.causes} == first.causes | second.causes
    assert report.unexplained_steps < 0.1
