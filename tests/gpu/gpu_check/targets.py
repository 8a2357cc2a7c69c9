"""Targets of a run, and the ranked table that it ends with."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpu_check.records import columns


@dataclass(frozen=True)
class Target:
    """What a figure is held against.

    Attributes:
        name: of the target.
        part: whose rows have the figure.
        metric: of the rows.
        at_least: the figure that is required; where lower is better, the largest allowed.
        aim: the figure aimed at.
        unit: of all three.
        by: pattern of the rows' `by`.
        lower_is_better: whether smaller figures are better.
    """

    name: str
    part: str
    metric: str
    at_least: float
    aim: float
    unit: str = "x"
    by: str = "endcap*"
    lower_is_better: bool = False


# Whole batches alone: a single image cannot fill a GPU.
_WORKS = "64 x *"
TARGETS = (
    Target("pixels: share of the copy bandwidth", "pixels", "share", 60, 90, "%"),
    Target("pixels against torchvision", "pixels", "peer / call", 5, 20),
    *(
        Target(
            f"heads: {what} against reading once",
            "heads",
            f"{metric} / bound",
            4,
            1.6,
            lower_is_better=True,
        )
        for what, metric in (("kernels", "kernel"), ("from Python by enqueue", "call"))
    ),
    Target("heads against torchvision", "heads", "peer / call", 20, 100),
    *(
        Target(f"JPEG, {decoder}, against torchvision", "jpeg", "peer / call", 1.5, 4, by=by)
        for decoder, by in (("hybrid", "endcap, hybrid*"), ("nvJPEG", "endcap, nvJPEG*"))
    ),
)
EXACT = "GPU equals CPU"
SANITIZERS = ("memcheck", "racecheck")
NOT_MEASURED = "not measured"


def judge(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each target with its figures, worst first.

    Args:
        content: of gpu.json.

    Returns:
        Of each target and work: target, work, figure, unit, at_least, aim, met ("no", "not
        measured", "yes" or "aim"), and score, the figure divided by the required one (its inverse
        where lower is better), None without a figure. Missed targets come first, then those without
        a figure, then the others, by score.
    """
    judged = [*_equality(content), *_reports(content)]
    for target in TARGETS:
        judged += list(_figures(content, target))
    order = {"no": 0, NOT_MEASURED: 1}
    return sorted(judged, key=lambda each: (order.get(each["met"], 2), each["score"] or 0.0))


def _figures(content: dict[str, Any], target: Target) -> Iterator[dict[str, Any]]:
    rows = content["parts"].get(target.part, {}).get("rows", [])
    found = [
        row
        for row in rows
        if row["metric"] == target.metric
        and fnmatch.fnmatchcase(row["by"], target.by)
        and fnmatch.fnmatchcase(row["work"], _WORKS)
    ]
    if content["emulated"] or not found:
        yield _judged(target.name, "", None, NOT_MEASURED, target)
        return
    for row in found:
        value = float(row["value"])
        score = _score(value, target.at_least, target.lower_is_better)
        reached = _score(value, target.aim, target.lower_is_better) >= 1
        met = "aim" if reached else "yes" if score >= 1 else "no"
        yield _judged(target.name, row["work"], value, met, target, score)


def _score(value: float, against: float, lower_is_better: bool) -> float:
    if not math.isfinite(value) or value <= 0:
        return 0.0
    return against / value if lower_is_better else value / against


def _judged(
    name: str, work: str, figure: object, met: str, target: Target, score: float | None = None
) -> dict[str, Any]:
    return {
        "target": name,
        "work": work,
        "figure": figure,
        "unit": target.unit,
        "at_least": target.at_least,
        "aim": target.aim,
        "met": met,
        "score": score,
    }


def _equality(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Judge the checks and the tests: all must pass, and without any nothing is known."""
    passed = total = 0
    for part in content["parts"].values():
        checks = [check["passed"] for check in part.get("checks", [])]
        tests = part.get("tests", {})
        passed += sum(checks) + len(tests.get("passed", []))
        total += len(checks) + len(tests.get("passed", [])) + len(tests.get("failed", []))
    target = Target(EXACT, "", "", total, total, "checks and tests")
    if content["emulated"] or total == 0:
        yield _judged(EXACT, "", None, NOT_MEASURED, target)
        return
    yield _judged(EXACT, "", passed, "aim" if passed == total else "no", target, passed / total)


def _reports(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Judge the sanitizers' parts: passed, they have no report."""
    for tool in SANITIZERS:
        name = f"{tool}: reports"
        part = content["parts"].get(tool)
        target = Target(name, tool, "", 0, 0, "")
        if part is None or part["state"] == "left out":
            yield _judged(name, "", None, NOT_MEASURED, target)
        elif part["state"] == "passed":
            yield _judged(name, "", 0, "aim", target, 1.0)
        else:
            yield _judged(name, "", part["state"], "no", target, 0.0)


def summary(
    content: dict[str, Any],
    judged: list[dict[str, Any]],
    failures: list[str],
    omissions: list[str],
) -> str:
    """Return the ranked table, then what failed, then what was left out."""
    machine = content["machine"]
    lines = []
    if content["emulated"]:
        lines.append("DRY RUN ON AN EMULATED GPU: no figure of this run is a measurement.")
    lines += [
        f"{', '.join(machine.get('gpus', [])) or 'no GPU'}; driver and clocks "
        f"{machine.get('driver', 'unknown')}; commit {machine.get('commit', 'unknown')}; "
        f"{content['runs'][-1]['date'] if content['runs'] else ''}",
        "",
        _parts_table(content),
        "",
    ]
    cells = [("target", "met", "work", "figure", "at least", "aim", "")]
    for each in judged:
        figure = each["figure"]
        figure = "-" if figure is None else f"{figure:,.4g}" if _is_number(figure) else figure
        bounds = (f"{each['at_least']:g}", f"{each['aim']:g}", each["unit"])
        cells.append((each["target"], each["met"], each["work"], figure, *bounds))
    lines.append(columns(cells, right=3))
    lines += ["", "failed:" if failures else "nothing failed", *(f"  {line}" for line in failures)]
    lines += ["left out:" if omissions else "nothing was left out"]
    lines += [f"  {line}" for line in omissions]
    if not content["complete"]:
        lines.append("this run is not complete")
    return "\n".join(lines)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _parts_table(content: dict[str, Any]) -> str:
    cells = [("part", "state", "tests", "seconds")]
    for name, part in content["parts"].items():
        tests = part.get("tests", {})
        counts = ", ".join(
            f"{len(tests[outcome])} {outcome}"
            for outcome in ("passed", "failed", "skipped")
            if tests.get(outcome)
        )
        cells.append((name, part["state"], counts, f"{part.get('seconds', 0.0):.1f}"))
    return columns(cells, right=3)
