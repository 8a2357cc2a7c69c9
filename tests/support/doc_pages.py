"""The code blocks of the documentation, and how a page's Python is run.

A page's Python blocks run in order in one namespace, as a reader would type them. A line that ends
in `# -> VALUE` is an expression whose repr must be VALUE; a long value has the next line to itself.
"""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_RESULT = "# -> "


@dataclass(frozen=True)
class Block:
    """One code block; `line` is where its first line stands in the page, from 1."""

    page: Path
    line: int
    language: str
    caption: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All code blocks: fenced (```python), MyST's ({code-block} with a :caption:), and indented."""
    found = []
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block") and token.map is not None:
            first = token.map[0] + (2 if token.type == "fence" else 1)
            found.append(_block(page, token.info, token.content, first))
    return found


def _block(page: Path, info: str, content: str, line: int) -> Block:
    language, caption = info.strip(), ""
    lines = content.splitlines(keepends=True)
    if language.startswith("{code-block}"):
        language = language.removeprefix("{code-block}").strip()
        while lines and lines[0].startswith(":"):
            name, _, value = lines.pop(0)[1:].partition(":")
            caption = value.strip() if name == "caption" else caption
            line += 1
        if lines and not lines[0].strip():  # it ends the options
            del lines[0]
            line += 1
    return Block(page, line, language, caption, "".join(lines))


def run_python(block: Block, names: dict[str, Any]) -> int:
    """Run a block and return how many values were compared.

    Raises AssertionError where a value is another, and whatever the block raises.
    """
    expected = _expected(block.text)
    compared = len(expected)
    for statement in ast.parse(block.text).body:
        wanted = expected.pop(statement.end_lineno or 0, None)
        place = f"{block.page}:{block.line - 1 + statement.lineno}"
        ast.increment_lineno(statement, block.line - 1)
        if wanted is None:
            exec(compile(ast.Module([statement], []), str(block.page), "exec"), names)
            continue
        assert isinstance(statement, ast.Expr), f"{place}: `{_RESULT}` stands behind no expression"
        value = eval(compile(ast.Expression(statement.value), str(block.page), "eval"), names)
        assert repr(value) == wanted, f"{place} gives {value!r}; the page says {wanted}"
    assert not expected, f"{block}: lines {sorted(expected)} have a `{_RESULT}` behind no statement"
    return compared


def _expected(text: str) -> dict[int, str]:
    """Line where an expression ends -> the value that is promised."""
    expected = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.string.startswith(_RESULT):
            alone = not token.line[: token.start[1]].strip()
            expected[token.start[0] - alone] = token.string.removeprefix(_RESULT).strip()
    return expected
