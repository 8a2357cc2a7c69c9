"""Which head family a network ends in: what is proposed, and the choice among proposals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from endcap.errors import UnsupportedError
from endcap.postprocess import Postprocessor
from endcap.repository.decision import Decision
from endcap.repository.errors import RepositoryError
from endcap.repository.network_output import NetworkOutput


@dataclass(frozen=True)
class Head:
    """One way to read a network's outputs.

    Attributes:
        inputs: An input of postprocess -> the network's output for it.
        num_classes: None where the outputs do not tell.
        is_sure: Whether the outputs can hardly be anything else; is_likely: whether they look like
            it at all.
        parameters: Of postprocess, beside the family.
        preset: How images are prepared for all networks with this head, None where that is not
            known.
        lacks: What has to be said before it can be read, and how, "" where nothing.
    """

    family: str
    inputs: Mapping[str, NetworkOutput]
    num_classes: int | None
    reason: str
    is_sure: bool
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    preset: str | None = None
    is_likely: bool = True
    lacks: str = ""

    def __str__(self) -> str:
        """Such as `yolov8 (output0 [84, 8400]: ...)`."""
        return f"{self.family} ({self.reason})"


def families() -> list[str]:
    """Return the head families that postprocess reads, as its parameter table names them."""
    (row,) = (row for row in Postprocessor(threads=1).describe() if row.name == "head")
    return row.allowed.removeprefix("one of ").split(", ")


def choose_head(
    path: Path, proposals: Sequence[Head], outputs: Sequence[NetworkOutput], wanted: str | None
) -> Head:
    """Return the head that the user names, else the only one that is sure.

    Raises:
        RepositoryError: None fits, it is not clear which, or something has to be said.
        UnsupportedError: For one that is recognised and that postprocess does not read.
    """
    listed = "; ".join(map(str, outputs))
    if wanted is not None:
        head = _wanted_head(path, proposals, listed, wanted)
    else:
        head = _only_head(path, proposals, listed)
    if head.lacks:
        raise RepositoryError(f"{path} ends in a head of the family {head}, and {head.lacks}")
    return head


def _only_head(path: Path, proposals: Sequence[Head], listed: str) -> Head:
    sure = [head for head in proposals if head.is_sure]
    if len(sure) == 1:
        return _readable(path, sure[0])
    if not proposals:
        raise RepositoryError(
            f"the outputs of {path} ({listed}) have the form of no head that is known "
            f"({', '.join(families())}); export it with its boxes decoded"
        )
    candidates = sure or [head for head in proposals if head.is_likely]
    readable = [head.family for head in candidates if head.family in families()]
    if sure and not readable:
        return _readable(path, sure[0])
    if not readable:
        raise RepositoryError(
            f"the outputs of {path} ({listed}) look like no head that is known: "
            f"{' or '.join(map(str, proposals))}; export it in another form, or say --head where "
            "you know better"
        )
    advice = " or ".join(f"--head {family}" for family in dict.fromkeys(readable))
    if len(set(readable)) < len(readable):
        advice += ", and which output by --num-classes or --labels"
    raise RepositoryError(
        f"the outputs of {path} ({listed}) may be {' or '.join(map(str, candidates))}; say which "
        f"it is: {advice}"
    )


def _wanted_head(path: Path, proposals: Sequence[Head], listed: str, wanted: str) -> Head:
    if wanted not in families():
        raise RepositoryError(
            f"--head is '{wanted}', which is no family that this version reads; give one of "
            f"{', '.join(families())}"
        )
    fitting = [head for head in proposals if head.family == wanted]
    if not fitting:
        others = ", ".join(map(str, proposals)) or "none of the families"
        raise RepositoryError(
            f"the outputs of {path} ({listed}) do not have the form of {wanted}; they fit {others}"
        )
    if len(fitting) > 1:
        fitting = [head for head in fitting if head.is_sure] or fitting
    if len(fitting) > 1:
        raise RepositoryError(
            f"{path} has several outputs of the form of {wanted} ({listed}); say which one by "
            "--num-classes or --labels, or export it with one"
        )
    return fitting[0]


def _readable(path: Path, head: Head) -> Head:
    if head.family not in families():
        raise UnsupportedError(
            f"{path} ends in a head of the family {head}, which this version of endcap does not "
            f"read; it reads {', '.join(families())}"
        )
    return head
