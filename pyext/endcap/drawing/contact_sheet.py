"""Contact sheets: many annotated pictures in a grid, each with a caption."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from endcap.drawing.fonts import Font, font_for
from endcap.drawing.labels import Color

PICTURES_PER_SHEET = 24
_COLUMNS_OF_A_FULL_SHEET = 4

_WIDTH = 1600  # pixels, of every sheet
_MARGIN = 32
_GAP = 20
_WIDEST_PICTURE = 1100
_ASPECT = 3 / 4  # height of the place of a picture, by its width
_TITLE_SIZE, _NAME_SIZE, _TEXT_SIZE = 30, 18, 15
_HEADER_HEIGHT = 100
_CAPTION_HEIGHT = 62
_PADDING = 14

_PAPER: Color = (241, 243, 246)
_CARD: Color = (255, 255, 255)
_FRAME: Color = (214, 219, 226)
_PLACE: Color = (226, 230, 236)
_INK: Color = (23, 27, 34)
_PALE_INK: Color = (92, 101, 114)
_ALARM: Color = (196, 43, 43)


@dataclass(frozen=True)
class Card:
    """One place of a sheet.

    Attributes:
        name, text: The lines below the picture; cut short in the middle where they are too long.
        draw: Returns the picture, RGB, scaled to fit the width and height given; or a message that
            says why there is none.
    """

    name: str
    text: str
    draw: Callable[[tuple[int, int]], Image.Image | str]


def contact_sheets(cards: Sequence[Card], *, title: str, note: str) -> Iterator[Image.Image]:
    """Yield sheets, RGB and 1600 pixels wide, with at most PICTURES_PER_SHEET cards on each.

    Args:
        cards: The pictures with their names; each is drawn when its sheet is yielded, so that one
            sheet is in memory at a time.
        title: The first line of each sheet, followed by its number where there are several.
        note: The second line.
    """
    pages = math.ceil(len(cards) / PICTURES_PER_SHEET)
    for page in range(pages):
        part = cards[page * PICTURES_PER_SHEET : (page + 1) * PICTURES_PER_SHEET]
        numbered = f"{title}, sheet {page + 1} of {pages}" if pages > 1 else title
        yield _sheet(part, columns_for(len(part)), numbered, note)


def columns_for(count: int) -> int:
    """Return the columns with the fewest empty places: all in one row up to four, else 3 or 4."""
    if count <= _COLUMNS_OF_A_FULL_SHEET:
        return max(1, count)
    return min((_COLUMNS_OF_A_FULL_SHEET, 3), key=lambda columns: -count % columns)


def _sheet(cards: Sequence[Card], columns: int, title: str, note: str) -> Image.Image:
    width = (_WIDTH - 2 * _MARGIN - (columns - 1) * _GAP) // columns
    width = min(width, _WIDEST_PICTURE)
    place = (width, round(width * _ASPECT))
    height = place[1] + _CAPTION_HEIGHT
    rows = math.ceil(len(cards) / columns)
    bottom = _HEADER_HEIGHT + rows * height + (rows - 1) * _GAP + _MARGIN
    sheet = Image.new("RGB", (_WIDTH, bottom), _PAPER)
    canvas = ImageDraw.Draw(sheet)
    room = _WIDTH - 2 * _MARGIN
    for y, text, color, size in ((22, title, _INK, _TITLE_SIZE), (64, note, _PALE_INK, _TEXT_SIZE)):
        font = font_for(text, size)
        canvas.text((_MARGIN, y), _fitting(text, font, room), fill=color, font=font)
    left = (_WIDTH - columns * width - (columns - 1) * _GAP) // 2
    for position, card in enumerate(cards):
        row, column = divmod(position, columns)
        corner = (left + column * (width + _GAP), _HEADER_HEIGHT + row * (height + _GAP))
        _draw_card(sheet, card, corner, place)
    return sheet


def _draw_card(
    sheet: Image.Image, card: Card, corner: tuple[int, int], place: tuple[int, int]
) -> None:
    canvas = ImageDraw.Draw(sheet)
    (x, y), (width, height) = corner, place
    canvas.rectangle(
        (x - 1, y - 1, x + width, y + height + _CAPTION_HEIGHT), fill=_CARD, outline=_FRAME
    )
    room = width - 2 * _PADDING
    picture = card.draw(place)
    if isinstance(picture, str):
        _write_problem(canvas, picture, (x, y), place)
    else:
        canvas.rectangle((x, y, x + width - 1, y + height - 1), fill=_PLACE)
        sheet.paste(picture, (x + (width - picture.width) // 2, y + (height - picture.height) // 2))
    name, text = font_for(card.name, _NAME_SIZE), font_for(card.text, _TEXT_SIZE)
    below = y + height
    canvas.text((x + _PADDING, below + 9), _fitting(card.name, name, room), fill=_INK, font=name)
    canvas.text(
        (x + _PADDING, below + 35), _fitting(card.text, text, room), fill=_PALE_INK, font=text
    )


def _write_problem(
    canvas: ImageDraw.ImageDraw, problem: str, corner: tuple[int, int], place: tuple[int, int]
) -> None:
    font = font_for(problem, _NAME_SIZE)
    (x, y), (width, height) = corner, place
    lines = _wrapped(problem, font, width - 2 * _PADDING)
    canvas.multiline_text(
        (x + width // 2, y + height // 2),
        "\n".join(lines),
        fill=_ALARM,
        font=font,
        anchor="mm",
        align="center",
        spacing=6,
    )


def _fitting(text: str, font: Font, room: int) -> str:
    """Return the text, its middle replaced by three dots where it is wider than `room` pixels."""
    kept = len(text)
    fitting = text
    while kept > 2 and font.getbbox(fitting)[2] > room:
        kept -= 1
        head = (kept + 1) // 2
        fitting = f"{text[:head]}...{text[len(text) - (kept - head) :]}"
    return fitting


def _wrapped(text: str, font: Font, room: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and font.getbbox(f"{lines[-1]} {word}")[2] <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(_fitting(word, font, room))
    return lines
