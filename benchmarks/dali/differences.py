"""Measures every kind of difference, and the pipelines (b) and (c) as wholes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import endcap
from benchmarks.dali import runners, synthetic
from benchmarks.dali.kinds import KINDS, Kind
from benchmarks.dali.ways import CPU_WAYS
from benchmarks.images import Photograph

Json = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Between pictures of one shape, in 8-bit steps; of several pictures the worst of each."""

    largest: float
    mean: float  # of the absolute differences
    share: float  # of the values that differ
    where: str = ""  # the picture of the largest one

    @staticmethod
    def of(theirs: Any, ours: Any, name: str = "") -> Difference:
        """Raise ValueError where the shapes differ."""
        if theirs.shape != ours.shape:
            raise ValueError(f"{name}: {list(theirs.shape)} and {list(ours.shape)}")
        steps = np.abs(theirs.astype(np.float64) - ours.astype(np.float64))
        return Difference(
            float(steps.max()),
            float(steps.mean()),
            float(np.count_nonzero(steps) / steps.size),
            name,
        )


def worst(differences: Iterable[Difference]) -> Difference:
    """The largest of each figure."""
    every = list(differences)
    farthest = max(every, key=lambda each: each.largest)
    return Difference(
        farthest.largest,
        max(each.mean for each in every),
        max(each.share for each in every),
        farthest.where,
    )


def measured(kind: Kind, inputs: Mapping[str, Any]) -> Difference:
    """One kind over several inputs."""
    return worst(
        Difference.of(kind.theirs(each), kind.ours(each), name) for name, each in inputs.items()
    )


def pipeline(key: str, files: Mapping[str, bytes]) -> Difference:
    """A way of CPU_WAYS against endcap.preprocess, the images in 8-bit steps."""
    (way,) = (way for way in CPU_WAYS if way.key == key)
    theirs, ours = runners.make(way, 1, 1), runners.make(CPU_WAYS[0], 1, 1)
    found = []
    for name, file in files.items():
        encoded = [np.frombuffer(file, np.uint8)]
        tensors = theirs.arrays(encoded)[0], ours.arrays(encoded)[0]
        found.append(Difference.of(_steps(tensors[0]), _steps(tensors[1]), name))
    return worst(found)


def run(pictures: Iterable[Photograph], done: Callable[[str], None]) -> list[Json]:
    """A row for each kind and pipeline; one that needs a GPU where there is none says so."""
    photographs = {picture.name: picture.encoded for picture in pictures}
    rows = []
    for kind in KINDS:
        rows.append(_row(kind, photographs))
        done(kind.name)
    for way in CPU_WAYS[2:]:
        found = {
            "photographs": vars(pipeline(way.key, photographs)),
            "synthetic": vars(pipeline(way.key, synthetic.jpegs())),
        }
        rows.append({"name": f"pipeline {way.key}", "reason": "the steps above", **found})
        done(way.key)
    return rows


def steps() -> int:
    """How often `run` will say that something is done."""
    return len(KINDS) + len(CPU_WAYS[2:])


def _steps(tensor: Any) -> Any:
    return np.rint(tensor * 255)


def _row(kind: Kind, photographs: Mapping[str, bytes]) -> Json:
    row: Json = {"name": kind.name, "reason": kind.reason, "photographs": None, "synthetic": None}
    if kind.needs_gpu and not endcap.cuda_state().available:
        return row
    for group, inputs in _inputs(kind, photographs).items():
        row[group] = vars(measured(kind, inputs))
    return row


def _inputs(kind: Kind, photographs: Mapping[str, bytes]) -> dict[str, Mapping[str, Any]]:
    if kind.inputs == "files":
        return {"photographs": photographs, "synthetic": synthetic.jpegs()}
    if kind.inputs == "CMYK files":
        return {"synthetic": synthetic.cmyk()}
    if kind.inputs == "half a pixel":
        return {"synthetic": {"noise": synthetic.noise(*synthetic.HALF_A_PIXEL)}}
    decoded = {name: np.asarray(endcap.decode(file)) for name, file in photographs.items()}
    return {"photographs": decoded, "synthetic": synthetic.pictures()}
