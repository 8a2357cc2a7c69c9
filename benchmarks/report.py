"""The results as tables on the screen, from the JSON documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from benchmarks.dali import tables as dali
from benchmarks.pipelines import tables as pipeline_tables

Json = dict[str, Any]
_MIB = 2**20


def show(document: Json, console: Console) -> None:
    """Print whatever parts a document of the benchmarks has."""
    console.print(heading(document["machine"]))
    for table in tables(document):
        console.print(table)


def heading(machine: Json) -> str:
    """One line that says what the figures belong to."""
    return (
        f"[bold]{machine['cpu']}[/], {machine['cpus']} CPUs, commit {machine['commit']}, "
        f"{machine['date']}, load average {machine['load_average']}"
    )


def tables(document: Json) -> Iterator[Table | Group]:
    """Every table of a document."""
    if "preprocess" in document:
        yield _latency(document["preprocess"]["one_thread"])
        yield _throughput(document["preprocess"]["all_threads"])
        if "two_threads" in document["preprocess"]:  # results of before have none
            yield _two_threads(document["preprocess"]["two_threads"])
        yield _memory(document["preprocess"]["memory"])
        if "regions" in document["preprocess"]:  # results of before have none
            yield _regions(document["preprocess"]["regions"])
    for comparison in document.get("postprocess", []):
        yield _comparison(comparison)
    for comparison in document.get("server", {}).get("comparisons", []):
        yield _server(comparison)
    for table in pipeline_tables.every(document.get("pipelines", {}).get("comparisons", [])):
        yield _text(table)
    for table in dali.every(document.get("dali", {})):
        yield _text(table)
    if "dali_parity" in document:
        yield _text(dali.differences(document["dali_parity"]))


def cell(row: Json) -> str:
    """Median and spread of a row, or why there is no time."""
    timing = row["timing"]
    if timing is None:
        return str(row["outcome"])
    half = (timing["high_ms"] - timing["low_ms"]) / 2
    return f"{timing['median_ms']:.2f} ±{half:.2f}"


def median_cell(row: Json) -> str:
    """Return the median alone; a dash for a row whose reason stands in the notes."""
    return "-" if row["timing"] is None else f"{row['timing']['median_ms']:.2f}"


def times(ratio: float | None) -> str:
    """Return a ratio: 2.00x takes twice as long as endcap."""
    return "" if ratio is None else f"{ratio:.2f}x"


def _latency(part: Json) -> Group:
    """Medians alone, so that a narrow screen has room; the spread is in the JSON."""
    title = "JPEG to letterboxed 640x640 float32 NCHW: ms, one thread"
    table = Table(title=title, box=box.SIMPLE, pad_edge=False)
    names = list(part["images"][0]["rows"])
    table.add_column("image", no_wrap=True)
    for name in (*names, "beyond decode"):
        table.add_column(name, justify="right", min_width=max(map(len, name.split())))
    for image in part["images"]:
        cells = [median_cell(image["rows"][name]) for name in names]
        table.add_row(image["name"], *cells, _percent(image["share_beyond_decode"]))
    table.add_section()
    for title, key in (("mean to endcap", "ratios"), ("mean to fast", "ratios_to_fast")):
        means = [times(part[key].get(name)) for name in names]
        beyond = _percent(part["share_beyond_decode"]) if key == "ratios" else ""
        table.add_row(title, *means, beyond)
    return Group(table, _notes(part["images"]))


def _notes(images: list[Json]) -> Table:
    table = Table(title="Verified against endcap before timing (8-bit steps), or why not timed")
    for name in ("image", "peer", "outcome", "note"):
        table.add_column(name)
    for image in images:
        for name, row in image["rows"].items():
            if row["outcome"] != "timed" or row["note"] not in ("equal", f"{image['height']} rows"):
                table.add_row(image["name"], name, row["outcome"], row["note"])
    return table


def _throughput(part: Json) -> Table:
    table = Table(title=f"A batch of {len(part['batch'])} images on {part['threads']} threads")
    for name in ("peer", "images/s", "ms a batch", "ratio", "verified, or why not"):
        table.add_column(name, justify="right" if name in ("images/s", "ms a batch") else "left")
    for name, row in part["rows"].items():
        rate = part["images_per_second"].get(name)
        shown = "" if rate is None else f"{rate:.1f}"
        table.add_row(name, shown, cell(row), times(row["ratio"]), row["note"])
    return table


def _two_threads(part: list[Json]) -> Table:
    table = Table(title="endcap, one image at a time: ms, and one thread to two")
    names = list(part[0]["rows"])
    table.add_column("image", no_wrap=True)
    for name in (*names, "ratio"):
        table.add_column(name, justify="right")
    for pair in part:
        rows = pair["rows"]
        table.add_row(pair["image"], *map(cell, rows.values()), times(rows[names[0]]["ratio"]))
    return table


def _memory(part: Json) -> Table:
    table = Table(title=f"Peak memory over the idle process, first call, {part['image']}")
    for name in ("peer", "MiB over idle", "idle MiB", "note"):
        table.add_column(name, justify="right" if "MiB" in name else "left")
    for name, peak in part["peers"].items():
        over, idle = peak["peak_over_idle_bytes"], peak["idle_bytes"]
        shown = ("", "") if over is None else (f"{over / _MIB:.1f}", f"{idle / _MIB:.0f}")
        table.add_row(name, *shown, peak["note"])
    return table


def _regions(part: Json) -> Table:
    table = Table(title=f"Regions of {part['image']} to float32 tensors: ms, one thread")
    for name in ("code", "ms", "bare decodes", "verified, or why not"):
        table.add_column(name, justify="right" if name in ("ms", "bare decodes") else "left")
    for name, row in part["rows"].items():
        table.add_row(name, cell(row), times(row["ratio"]), row["note"])
    return table


def _comparison(comparison: Json) -> Table:
    table = Table(
        title=f"{comparison['name']} ({comparison['candidates']:,} candidates): ms, one thread"
    )
    for name in ("peer", "ms", "ratio", "verified, or why not"):
        table.add_column(name, justify="right" if name in ("ms", "ratio") else "left")
    for name, row in comparison["rows"].items():
        table.add_row(name, cell(row), times(row["ratio"]), row["note"])
    return table


def _server(comparison: Json) -> Table:
    title = f"Server: {comparison['name']} (verified: {comparison['verified']})"
    table = Table(title=title, caption="; ".join(comparison["problems"]))
    columns = ("concurrency", "model", "inferences/s", "p50 ms", "p99 ms", "throughput")
    for name in columns:
        table.add_column(name, justify="left" if name == "model" else "right")
    for point in comparison["points"]:
        gain = point["ours"]["inferences_per_second"] / point["theirs"]["inferences_per_second"]
        for side, shown in (("ours", times(gain)), ("theirs", "1.00x")):
            load = point[side]
            figures = [f"{load[key]:.1f}" for key in ("inferences_per_second", "p50_ms", "p99_ms")]
            table.add_row(str(point["concurrency"]), comparison[side], *figures, shown)
    return table


def _text(text: pipeline_tables.TextTable) -> Table:
    table = Table(title=text.title)
    for index, name in enumerate(text.header):
        table.add_column(name, justify="left" if index < text.words else "right")
    for row in text.rows:
        table.add_row(*map(escape, row))
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
