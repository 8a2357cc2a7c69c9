"""Which steps of an ensemble are taken, where, and for which of their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from endcap.client.steps.local_model import is_postprocess, is_preprocess
from endcap.client.steps.local_postprocess import LocalPostprocess
from endcap.client.steps.local_preprocess import LocalPreprocess
from endcap.client.steps.remote_step import RemoteStep
from endcap.client.steps.served_steps import ServedSteps, Step
from endcap.errors import InvalidArgumentError, UnsupportedError

Place = Literal["server", "client"]
ChosenStep = LocalPreprocess | LocalPostprocess | RemoteStep


def choose_steps(
    served: ServedSteps,
    *,
    preprocess: Place,
    postprocess: Place,
    class_counts: Mapping[str, int],
    pixel_format: str,
) -> list[ChosenStep]:
    """Returns the steps that the outputs need, in their order.

    class_counts: by the names of the ensemble's outputs that are wanted; more than 0 for Triton's
        classification extension.

    Raises UnsupportedError for a step that cannot be taken here, and InvalidArgumentError for
    Triton's classification of what is made here.
    """
    if preprocess == "client":
        _check_first_steps(served)
    if postprocess == "client" and not any(map(is_postprocess, served.steps)):
        raise UnsupportedError(
            f"no step of ensemble '{served.ensemble.name}' runs in endcap_postprocess; let the "
            "server do it: postprocess='server'"
        )
    chosen: list[ChosenStep] = []
    passed_on: set[str] = set()
    for step in reversed(served.steps):
        wanted = {*class_counts, *passed_on}.intersection(step.place.outputs.values())
        if not wanted:
            continue
        takes_images = served.ensemble.inputs.keys() >= set(_taken(step))
        if preprocess == "client" and takes_images and is_preprocess(step):
            chosen.append(LocalPreprocess(step, pixel_format))
        elif postprocess == "client" and is_postprocess(step):
            _refuse_classification(class_counts, wanted)
            chosen.append(LocalPostprocess(step, wanted))
        else:
            chosen.append(RemoteStep(step, wanted, wanted & passed_on, class_counts))
        passed_on.update(step.place.inputs.values())
    return chosen[::-1]


def _check_first_steps(served: ServedSteps) -> None:
    inputs = served.ensemble.inputs
    first = [step for step in served.steps if not inputs.keys().isdisjoint(_taken(step))]
    if len(inputs) != 1 or not first or not all(map(is_preprocess, first)):
        names = ", ".join(step.place.model for step in first)
        raise UnsupportedError(
            f"ensemble '{served.ensemble.name}' gives its inputs {', '.join(inputs)} to {names}, "
            "which are not endcap_preprocess alone; let the server do it: preprocess='server'"
        )


def _taken(step: Step) -> Sequence[str]:
    return list(step.place.inputs.values())


def _refuse_classification(class_counts: Mapping[str, int], wanted: set[str]) -> None:
    for name in sorted(wanted):
        if class_counts.get(name, 0) > 0:
            raise InvalidArgumentError(
                f"{name} is made in this client, and its best classes are to be named by the "
                "server; give postprocess='server', or classify=None"
            )
