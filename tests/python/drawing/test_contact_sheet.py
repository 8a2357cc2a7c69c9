"""Contact sheets on real pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from endcap.drawing.contact_sheet import PICTURES_PER_SHEET, Card, columns_for, contact_sheets

RED = (255, 0, 0)


def red(size: tuple[int, int]) -> Image.Image:
    return Image.new("RGB", size, RED)


def card(draw: Callable[[tuple[int, int]], Image.Image | str] = red, name: str = "a.jpg") -> Card:
    return Card(name, "640 x 480, 2 detections, 3.0 ms", draw)


def sheets(cards: list[Card], title: str = "title", note: str = "note") -> list[Image.Image]:
    return list(contact_sheets(cards, title=title, note=note))


def red_pixels(sheet: Image.Image) -> int:
    return int((np.asarray(sheet) == RED).all(axis=2).sum())


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 23, 24, 25, 200])
def test_every_picture_is_on_a_sheet_once(count: int) -> None:
    sizes: list[tuple[int, int]] = []

    def draw(size: tuple[int, int]) -> Image.Image:
        sizes.append(size)
        return red(size)

    made = sheets([card(draw)] * count)
    assert len(sizes) == count
    assert len(made) == -(-count // PICTURES_PER_SHEET)
    assert {sheet.width for sheet in made} == {1600}
    assert sum(map(red_pixels, made)) == sum(width * height for width, height in sizes)


def test_rows_are_filled() -> None:
    assert [columns_for(count) for count in range(1, 13)] == [1, 2, 3, 4, 3, 3, 4, 4, 3, 4, 4, 4]


def test_one_picture_is_large_and_many_are_not_tiny() -> None:
    (one,), (many,) = sheets([card()]), sheets([card()] * 24)
    assert red_pixels(one) > 800 * 600
    assert red_pixels(many) / 24 > 300 * 225


def test_a_picture_stands_in_the_middle_of_its_place() -> None:
    (sheet,) = sheets([card(lambda size: red((size[0] // 2, size[1])))])
    columns = np.flatnonzero((np.asarray(sheet) == RED).all(axis=2).any(axis=0))
    assert columns[0] + columns[-1] == pytest.approx(sheet.width, abs=2)


def test_the_place_of_a_missing_picture_says_why() -> None:
    def letters(reason: str) -> int:
        (sheet,) = sheets([card(lambda _: reason), card()])
        left = np.asarray(sheet)[100:550, :780].astype(int)
        return int(((left[..., 0] - left[..., 1]) > 80).sum())

    assert letters("") == 0
    assert 0 < letters("failed") < letters("corrupt_image: image 0 is not a JPEG " * 5)


def test_long_names_are_cut_short_inside_the_card() -> None:
    (short,) = sheets([card(name="a.jpg"), card()])
    (long,) = sheets([card(name="a_long_name_" * 30 + ".jpg"), card()], title="x" * 900)
    assert long.size == short.size
    changed = (np.asarray(long)[100:] != np.asarray(short)[100:]).any(axis=(0, 2))
    assert changed.any()
    assert not changed[780:].any(), "the other card and the gap are as they were"
    title = (np.asarray(long)[:60] != np.asarray(short)[0, 0]).any(axis=(0, 2))
    assert not title[1570:].any()


def test_each_of_several_sheets_has_its_number() -> None:
    first, second = sheets([card()] * 48)
    assert not np.array_equal(np.asarray(first)[:60], np.asarray(second)[:60])
    assert np.array_equal(np.asarray(first)[60:], np.asarray(second)[60:])


def test_sheets_are_drawn_when_they_are_asked_for() -> None:
    drawn: list[int] = []

    def draw(size: tuple[int, int]) -> Image.Image:
        drawn.append(1)
        return red(size)

    made = contact_sheets([card(draw)] * 30, title="", note="")
    assert drawn == []
    next(made)
    assert len(drawn) == PICTURES_PER_SHEET
