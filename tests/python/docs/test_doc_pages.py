"""The checker of the documentation's code finds what is wrong with it."""

from __future__ import annotations

import pytest

from tests.support.doc_pages import ROOT, Block, run_python


def block(text: str) -> Block:
    return Block(ROOT / "page.md", 10, "python", "", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 + 1  # -> 3", r"page.md:10 gives 2; the page says 3"),
        ("a = 1\n\na  # -> '1'", r"page.md:12 gives 1; the page says '1'"),
        ("2\n# -> 3", "page.md:10 gives 2; the page says 3"),
        ("2\n\n# -> 2", "behind no statement"),
        ("a = 1  # -> 1", "stands behind no expression"),
        ("if True:\n    1  # -> 1\n    2\n", "behind no statement"),
    ],
)
def test_what_a_page_says_wrongly_is_found(text: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        run_python(block(text), {})
