"""The checker of the documentation's code finds what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.doc_pages import ROOT, Block, blocks, run_python

PAGE = """# A page

```python
a = 1
a + 1  # -> 2
```

Text, and

```{code-block} text
:caption: models/x/config.pbtxt

backend: "x"
```
"""


def block(text: str) -> Block:
    return Block(ROOT / "page.md", 10, "python", "", text)


def test_blocks_are_found_with_language_caption_and_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    python, config = blocks(page)
    assert (python.language, python.caption, python.line) == ("python", "", 4)
    assert python.text == "a = 1\na + 1  # -> 2\n"
    assert (config.language, config.caption) == ("text", "models/x/config.pbtxt")
    assert (config.text, config.line) == ('backend: "x"\n', 13)


def test_values_are_compared_and_names_stay() -> None:
    names: dict[str, Any] = {}
    assert run_python(block("b = [1,\n     2]\nb  # -> [1, 2]\nb[0]\n# -> 1\n"), names) == 2
    assert names["b"] == [1, 2]


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


def test_an_error_of_the_code_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        run_python(block("1 / 0"), {})
