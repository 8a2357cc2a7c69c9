"""What was found out about a network, for people: on the terminal and in the README."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from endcap.repository.plan import Plan


@dataclass(frozen=True)
class Discovery:
    """One line: what it is about, what was decided, and why."""

    what: str
    value: str
    reason: str


def discoveries(plan: Plan) -> Iterator[Discovery]:
    """Yield all that the repository's configurations depend on, in the way of the data."""
    image = plan.image
    batch = "one image at a time" if image.batch == 1 else "any number of images at a time"
    order = "channels first" if image.layout == "nchw" else "channels last"
    dims = ", ".join(map(str, image.dims))
    yield Discovery("input", f"{image.name} {image.data_type} [{dims}]", f"{order}, {batch}")
    for name, decision in plan.preprocess.items():
        yield Discovery(name, decision.value, decision.reason)
    for name, decision in plan.postprocess.items():
        yield Discovery(name, decision.value, decision.reason)
    yield Discovery("runtime", plan.runtime.value, plan.model.reason)
    names = plan.classes.names
    value = "none" if names is None else _shortened(names)
    yield Discovery("class names", value, plan.classes.reason)
    for location, name in plan.network.weight_names().items():
        size = plan.network.external_files[location].stat().st_size
        yield Discovery(
            "weights", location, f"a file beside the network, copied as {name} ({size} bytes)"
        )


def _shortened(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown}, ... {names[-1]}"
