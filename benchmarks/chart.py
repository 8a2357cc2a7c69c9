"""The results as a picture: horizontal bars, endcap beside its peers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_OUR_NAMES = (
    *("endcap", "preprocess", "detect"),
    *("ensemble", "Python models", "Python BLS", "C++ BLS", "client side"),
    *("(a)", "(b)"),
)
_OURS, _PEER, _FLOOR = "#0b7a75", "#b8bfc6", "#e3c16f"


@dataclass(frozen=True)
class Bars:
    """One panel: label and length of each bar."""

    title: str
    unit: str
    bars: list[tuple[str, float]]


def draw(document: Json, path: Path) -> bool:
    """Write a PNG with all panels that the document has figures for, in two columns.

    Writes nothing, and gives False, where nothing was timed.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    panels = [each for each in panels_of(document) if each.bars]
    if not panels:
        return False
    columns = in_columns(panels)
    tallest = max(sum(map(_units, column)) for column in columns)
    width = 5.2 * len(columns) if len(columns) > 1 else 7.0
    figure = pyplot.figure(figsize=(width, 0.2 * tallest + 0.5), layout="constrained")
    parts = figure.subfigures(1, len(columns), squeeze=False)[0]
    for part, column in zip(parts, columns, strict=True):
        _draw_column(column, part, tallest)
    machine = document["machine"]
    figure.suptitle(
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['date'][:10]}, {machine['commit']}",
        fontsize=8,
        color="#555555",
    )
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return True


def in_columns(panels: list[Bars]) -> list[list[Bars]]:
    """One column, or two of about the same height; the order of the panels stays."""
    if len(panels) <= 3:
        return [panels]
    splits = [(panels[:first], panels[first:]) for first in range(1, len(panels))]
    return list(min(splits, key=lambda split: max(sum(map(_units, column)) for column in split)))


def _units(panel: Bars) -> float:
    """Height of a panel with its title, in bars."""
    return len(panel.bars) + 1.8


def _draw_column(column: list[Bars], part: Any, tallest: float) -> None:
    empty = tallest - sum(map(_units, column))  # so that bars are as thick as in the other column
    heights = [*(len(panel.bars) for panel in column), *([empty] if empty > 0.5 else [])]
    axes = part.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for panel, axis in zip(column, axes, strict=False):
        _draw_panel(panel, axis)
    for axis in axes[len(column) :]:
        axis.axis("off")


def panels_of(document: Json) -> list[Bars]:
    """Return the panels of a document, with a bar for every entry that was timed."""
    found = []
    if "preprocess" in document:
        found += _preprocess(document["preprocess"])
    for comparison in document.get("postprocess", []):
        found.append(Bars(comparison["name"], "ms", _medians(comparison["rows"])))
    for comparison in document.get("server", {}).get("comparisons", []):
        found.append(Bars(comparison["name"], "inferences/s", _loads(comparison)))
    for comparison in document.get("pipelines", {}).get("comparisons", []):
        found += _pipelines(comparison)
    if "dali" in document:
        found += _dali(document["dali"])
    return found


def _preprocess(part: Json) -> list[Bars]:
    panels = [
        Bars(
            f"{image['name']} ({image['encoded_bytes'] / 1e3:.0f} KB), one thread",
            "ms",
            _medians(image["rows"]),
        )
        for image in _few(part["one_thread"]["images"])
    ]
    ratios = [
        (name, ratio) for name, ratio in part["one_thread"]["ratios"].items() if "fast" not in name
    ]
    count = len(part["one_thread"]["images"])
    panels.insert(
        0, Bars(f"JPEG to 640x640 tensor, {count} images, one thread", "x endcap's time", ratios)
    )
    rates = list(part["all_threads"]["images_per_second"].items())
    panels.append(Bars(f"Batch on {part['all_threads']['threads']} threads", "images/s", rates))
    return panels


def _few(images: list[Json]) -> list[Json]:
    """Smallest, middle and largest picture: more would not be read."""
    by_size = sorted(images, key=lambda image: image["width"] * image["height"])
    return [by_size[index] for index in sorted({0, len(by_size) // 2, len(by_size) - 1})]


def _medians(rows: Json) -> list[tuple[str, float]]:
    return [(name, row["timing"]["median_ms"]) for name, row in rows.items() if row["timing"]]


def _loads(comparison: Json) -> list[tuple[str, float]]:
    return [
        (
            f"{comparison[side]}, {point['concurrency']} at once",
            point[side]["inferences_per_second"],
        )
        for point in comparison["points"]
        for side in ("ours", "theirs")
    ]


def _pipelines(comparison: Json) -> list[Bars]:
    """Throughput, and CPU time of server and client together, at the most requests at once."""
    last = {
        pipeline["name"]: pipeline["points"][-1]
        for pipeline in comparison["pipelines"]
        if pipeline["points"]
    }
    if not last:
        return []
    at_once = max(point["concurrency"] for point in last.values())
    title = f"{comparison['task']}, {comparison['network']}, at {at_once:.0f}"
    rates = [(name, point["inferences_per_second"]) for name, point in last.items()]
    costs = [
        (name, point["service_cpu_ms"] + point["client_cpu_ms"]) for name, point in last.items()
    ]
    return [Bars(title, "inferences/s", rates), Bars(title, "CPU ms", costs)]


def _dali(part: Json) -> list[Bars]:
    """Throughput by threads and on a GPU, and how many times endcap's time one image takes."""
    count = len(part["latency"]["images"])
    panels = [
        Bars(
            f"Batch of {len(part['batch'])}, threads: {comparison['threads']}{where}",
            "images/s",
            list(comparison["images_per_second"].items()),
        )
        for comparison, where in (
            *((each, "") for each in part["throughput"]),
            (part["gpu"], ", GPU"),
        )
    ]
    title = f"One at a time, {count} photographs, one thread"
    return [*panels, Bars(title, "x endcap's time", list(part["latency"]["ratios"].items()))]


def _draw_panel(panel: Bars, axis: Any) -> None:
    labels = [label for label, _ in panel.bars]
    values = [value for _, value in panel.bars]
    drawn = axis.barh(labels, values, color=[_colour(label) for label in labels], height=0.72)
    axis.bar_label(drawn, labels=[number(value) for value in values], padding=3, fontsize=8)
    better = "more" if panel.unit.endswith("/s") else "less"
    title = f"{panel.title}: {panel.unit}, {better} is better"
    axis.annotate(  # at the left edge of the column, above the labels
        title,
        (0.02, 1),
        (0, 3),
        xycoords=("subfigure fraction", "axes fraction"),
        textcoords="offset points",
        fontsize=8,
        fontweight="bold",
    )
    axis.set_ylim(len(values) - 0.5, -0.5)
    axis.set_xlim(0, max(values) * 1.12)
    axis.xaxis.set_visible(False)
    axis.tick_params(axis="y", length=0, labelsize=8)
    for side in ("top", "right", "bottom"):
        axis.spines[side].set_visible(False)


def number(value: float) -> str:
    """Three digits, and no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _colour(label: str) -> str:
    if label in ("bare decode", "ONNX Runtime, the network alone"):
        return _FLOOR
    theirs = any(word in label for word in ("python", "opencv"))
    return _OURS if label.startswith(_OUR_NAMES) and not theirs else _PEER
