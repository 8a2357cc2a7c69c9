"""Report of `endcap parity` as a page of HTML with pictures, in one file."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from endcap.tools.parity.report import (
    advice_lines,
    cause_cells,
    conclusion,
    outputs_lines,
    rules_line,
    summary_rows,
)
from endcap.tools.parity.run import ParityReport
from endcap.tools.parity.tensors import ImageParity, normalization_of

_MOST_IMAGES = 24
_PICTURE_SIDE = 320  # pixels
_GAINS = (1, 2, 4, 8, 16, 32, 64)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent);
  padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
th { font-weight: 600; }
pre { background: color-mix(in srgb, currentColor 8%, transparent); padding: .8rem;
  overflow-x: auto; }
.images { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: .5rem;
  margin: 0 0 1.5rem; }
figure { margin: 0; }
figure img { width: 100%; height: auto; display: block; }
figcaption, .note { font-size: 13px; opacity: .75; }
"""


def as_page(report: ParityReport) -> str:
    """Return the page."""
    return "\n".join(_parts(report)) + "\n"


def _parts(report: ParityReport) -> Iterator[str]:
    tensors = report.tensors
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    yield "img-src data:; style-src 'unsafe-inline'\">"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>endcap parity</title><style>{_STYLE}</style></head><body>"
    yield "<h1>Does the network see the same pixels?</h1>"
    yield f"<p><strong>{_text(conclusion(report))}</strong></p>"
    yield f"<p>Training pipeline: {_text(tensors.pipeline)}. Images: {len(tensors.images)}.</p>"
    yield "<h2>Tensors</h2>"
    yield _table(("in 8-bit steps", "mean", "largest", "equal"), summary_rows(report), {1, 2, 3})
    if report.causes:
        yield "<h2>Causes</h2>"
        titles = ("cause", "training", "endcap", "mean", "largest")
        yield _table(titles, [cause_cells(each) for each in report.causes], {3, 4})
        yield (
            '<p class="note">mean, largest: the difference that this cause alone makes, in 8-bit '
            "steps.</p>"
        )
        yield "".join(f"<p>{_text(line)}</p>" for line in advice_lines(report))
    if report.settings:
        yield "<h2>Parameters to set</h2>"
        lines = [
            f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}'
            for name, value in report.settings.items()
        ]
        yield f"<pre>{_text(chr(10).join(lines))}</pre>"
    if report.outputs is not None:
        yield "<h2>Outputs of the network</h2><ul>"
        lines = outputs_lines(report.outputs)
        lines += [rules_line(report.rules)] if report.rules else []
        yield "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>"
    yield "<h2>Images</h2>"
    for each in _most_different(tensors.images):
        yield _pictures(each, report)
    left = len(tensors.images) - _MOST_IMAGES
    if left > 0:
        yield f'<p class="note">and {left} more, which differ less.</p>'
    for name, why in tensors.failures.items():
        yield f"<p>Failed: {_text(name)}: {_text(why)}</p>"
    for note in tensors.notes:
        yield f'<p class="note">{_text(note)}</p>'
    yield "</body></html>"


def _text(text: str) -> str:
    return html.escape(text)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if place in numbers else ''}>{_text(cell)}</{tag}>"
            for place, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', titles)}</tr></thead><tbody>{body}</tbody></table>"


def _most_different(images: Sequence[ImageParity]) -> list[ImageParity]:
    def order(each: ImageParity) -> float:
        return -each.difference.mean if each.difference else -np.inf

    return sorted(images, key=order)[:_MOST_IMAGES]


def _pictures(image: ImageParity, report: ParityReport) -> str:
    normalization = normalization_of(report.tensors.parameters, image.endcap.shape[2])
    training, ours = (
        normalization.undo(each.astype(np.float64))
        if each.shape[2] == image.endcap.shape[2]
        else each.astype(np.float64)
        for each in (image.training, image.endcap)
    )
    figures = [
        _figure(training, f"training, {_size(training)}"),
        _figure(ours, f"endcap, {_size(ours)}"),
    ]
    caption = "other shapes"
    if image.difference is not None:
        steps = np.abs(training - ours)
        gain = _gain(float(np.percentile(steps, 99)))
        figures.append(_figure(steps * gain, f"difference, times {gain}"))
        caption = (
            f"mean {image.difference.mean:.3f}, largest {image.difference.largest:.1f} steps, "
            f"{image.difference.equal:.1%} equal"
        )
    return (
        f"<h3>{_text(image.path.name)}</h3><p class=note>{caption}</p>"
        f'<div class="images">{"".join(figures)}</div>'
    )


def _size(pixels: NDArray[np.float64]) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"


def _gain(high: float) -> int:
    return max((gain for gain in _GAINS if gain * high <= 255), default=1)


def _figure(pixels: NDArray[np.float64], caption: str) -> str:
    whole = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    picture = Image.fromarray(whole[..., 0] if whole.shape[2] == 1 else whole)
    picture.thumbnail((_PICTURE_SIDE, _PICTURE_SIDE))
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    return (
        f'<figure><img alt="{_text(caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{_text(caption)}</figcaption></figure>"
    )
