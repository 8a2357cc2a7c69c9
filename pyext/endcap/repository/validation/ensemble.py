"""An ensemble: its configuration, its steps, and the tensors between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from endcap.repository.validation.dataflow import check_dataflow
from endcap.repository.validation.finding import Finding
from endcap.repository.validation.labels import check_labels
from endcap.repository.validation.model import Model
from endcap.repository.validation.steps import Known, check_batch, check_step, steps_of


def check_ensemble(ensemble: Model, known: Known) -> Iterator[Finding]:
    """All that is wrong with an ensemble but what is wrong with the models that it calls."""
    yield from _check_kind(ensemble)
    steps = steps_of(ensemble, known)
    if not steps:
        yield ensemble.error(
            ensemble.lines.line_of("ensemble_scheduling", "platform"),
            "the ensemble has no step",
            "list the models that it calls in ensemble_scheduling",
        )
        return
    of_steps = [finding for step in steps for finding in check_step(ensemble, step, known)]
    yield from of_steps
    yield from check_batch(ensemble, steps)
    circle = _circle(ensemble.name, known.models)
    if circle:
        calls = [step.block for step in steps if step.name == circle[1]]
        yield ensemble.error(
            calls[0].line_of("model_name"),
            f"the ensemble calls itself: {' -> '.join(circle)}",
            "call a model that does not",
        )
    yield from check_dataflow(ensemble, steps, maps_are_complete=not of_steps)
    # Where num_classes contradicts the head, that is found, and which of the two is right is not.
    called = [s.name for s in steps if s.interface and not s.interface.contradictory]
    yield from check_labels(ensemble, [known.models[name] for name in called])


def _check_kind(ensemble: Model) -> Iterator[Finding]:
    config, lines = ensemble.config, ensemble.lines
    if config.platform != "ensemble" or config.backend:
        yield ensemble.error(
            lines.line_of("backend", "platform", "ensemble_scheduling"),
            f'the model has ensemble_scheduling, and platform: "{config.platform}" with '
            f'backend: "{config.backend}"',
            'write platform: "ensemble" and no backend',
        )
    for field, advice in (
        ("model_warmup", "give it to the models of the steps"),
        ("instance_group", "an ensemble runs nothing itself; give it to the models of the steps"),
    ):
        if len(getattr(config, field)):
            yield ensemble.error(
                lines.line_of(field), f"Triton refuses {field} in an ensemble", advice
            )


def _circle(start: str, models: Mapping[str, Model]) -> list[str]:
    """Return the way on which an ensemble calls itself, its name first and last; [] if none."""
    ways, visited = [[start]], set()
    while ways:
        way = ways.pop()
        model = models.get(way[-1])
        for step in model.config.ensemble_scheduling.step if model else ():
            if step.model_name == start:
                return [*way, start]
            if step.model_name not in visited:
                visited.add(step.model_name)
                ways.append([*way, step.model_name])
    return []
