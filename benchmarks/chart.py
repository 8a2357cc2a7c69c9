"""The results as a picture: horizontal bars, endcap beside its peers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_OURS, _PEER, _FLOOR = "#0b7a75", "#b8bfc6", "#e3c16f"


@dataclass(frozen=True)
class Bars:
    """One panel: label and length of each bar, and which are ours."""

    title: str
    unit: str
    bars: list[tuple[str, float]]


def draw(document: Json, path: Path) -> None:
    """Writes a PNG with all panels that the document has figures for."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    panels = [each for each in panels_of(document) if each.bars]
    heights = [len(panel.bars) + 1.6 for panel in panels]
    figure, axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(9, 0.27 * sum(heights) + 0.8),
        gridspec_kw={"height_ratios": heights},
        squeeze=False,
        layout="constrained",
    )
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        _draw_panel(panel, axis)
    machine = document["machine"]
    figure.suptitle(
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['date'][:10]}, {machine['commit']}",
        fontsize=9,
        color="#555555",
    )
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def panels_of(document: Json) -> list[Bars]:
    """The panels of a document, with a bar for every contender that was timed."""
    found = []
    if "preprocess" in document:
        found += _preprocess(document["preprocess"])
    for contest in document.get("postprocess", []):
        found.append(Bars(contest["name"], "ms", _medians(contest["rows"])))
    for contest in document.get("server", {}).get("contests", []):
        found.append(Bars(contest["name"], "inferences/s", _loads(contest)))
    return found


def _preprocess(part: Json) -> list[Bars]:
    panels = [
        Bars(
            f"{image['name']} JPEG ({image['encoded_bytes'] / 1e3:.0f} KB) to 640x640, one thread",
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
        0, Bars(f"Geometric mean over {count} images, one thread", "x endcap's time", ratios)
    )
    rates = list(part["all_threads"]["images_per_second"].items())
    panels.append(Bars(f"{part['all_threads']['threads']} threads", "images/s", rates))
    return panels


def _few(images: list[Json]) -> list[Json]:
    """Smallest, middle and largest picture: more would not be read."""
    by_size = sorted(images, key=lambda image: image["width"] * image["height"])
    return [by_size[index] for index in sorted({0, len(by_size) // 2, len(by_size) - 1})]


def _medians(rows: Json) -> list[tuple[str, float]]:
    return [(name, row["timing"]["median_ms"]) for name, row in rows.items() if row["timing"]]


def _loads(contest: Json) -> list[tuple[str, float]]:
    return [
        (f"{contest[side]}, concurrency {point['concurrency']}", point[side][key])
        for point in contest["points"]
        for side in ("ours", "theirs")
        for key in ("inferences_per_second",)
    ]


def _draw_panel(panel: Bars, axis: Any) -> None:
    labels = [label for label, _ in panel.bars]
    values = [value for _, value in panel.bars]
    drawn = axis.barh(labels, values, color=[_colour(label) for label in labels], height=0.72)
    axis.bar_label(drawn, labels=[f"{value:.3g}" for value in values], padding=3, fontsize=8)
    axis.set_title(f"{panel.title} ({panel.unit})", loc="left", fontsize=9, fontweight="bold")
    axis.invert_yaxis()
    axis.set_xlim(0, max(values) * 1.12)
    axis.xaxis.set_visible(False)
    axis.tick_params(axis="y", length=0, labelsize=8)
    for side in ("top", "right", "bottom"):
        axis.spines[side].set_visible(False)


def _colour(label: str) -> str:
    if label == "bare decode":
        return _FLOOR
    theirs = "python" in label or not label.startswith(("endcap", "preprocess", "detect"))
    return _PEER if theirs else _OURS
