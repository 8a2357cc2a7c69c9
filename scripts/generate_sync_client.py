"""Writes the client for threads, `endcap/client/_sync`, from the one for asyncio, `_async`.

    python scripts/generate_sync_client.py           # writes it
    python scripts/generate_sync_client.py --check   # exit code 1 where it would change

Names with the prefix `Async` or `async_` lose it; the others are in the table below. A statement
whose first line ends in `# async only` is left out; a line `# sync: STATEMENT` becomes STATEMENT.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import unasync

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "pyext" / "endcap" / "client" / "_async"
TARGET = SOURCE.with_name("_sync")
NAMES = {
    "_async": "_sync",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_stream": "iter_stream",
    "AnyIOBackend": "SyncBackend",
    "AsyncExitStack": "ExitStack",
    "push_async_callback": "callback",
}
PACKAGE = '"""The client for threads. Made of `_async` by scripts/generate_sync_client.py."""\n'
HEADER = "# Made by scripts/generate_sync_client.py: change ../_async/{} instead.\n\n"


def generate(folder: Path) -> None:
    """Write the package into `folder`, formatted."""
    sources = sorted(SOURCE.glob("*.py"))
    texts = {source.name: source.read_text() for source in sources}
    with tempfile.TemporaryDirectory() as scratch:
        origin = Path(scratch) / "_async"
        origin.mkdir()
        for name, text in texts.items():
            (origin / name).write_text(without_asyncio_types(with_sync_statements(text)))
        rule = unasync.Rule(str(origin), str(folder), names_in("".join(texts.values())))
        unasync.unasync_files([str(origin / name) for name in texts], [rule])
    for name in texts:
        written = (folder / name).read_text()
        is_package = name == "__init__.py"
        (folder / name).write_text(PACKAGE if is_package else HEADER.format(name) + written)
    ruff = [sys.executable, "-m", "ruff"]
    config = ["--config", str(ROOT / "pyproject.toml"), "--quiet", str(folder)]
    subprocess.run([*ruff, "check", "--select", "F401,I001", "--fix", *config], check=True)
    subprocess.run([*ruff, "format", *config], check=True)


def names_in(text: str) -> dict[str, str]:
    """Return the names to replace: those of the table, and all with the prefixes."""
    prefixed = set(re.findall(r"\b(?:Async|async_|ASYNC_)\w+", text)) - set(NAMES)
    return {name: re.sub(r"^(?:Async|async_|ASYNC_)", "", name) for name in prefixed} | NAMES


def with_sync_statements(text: str) -> str:
    """Return the text without the statements for asyncio only, and with those for threads."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and lines[node.lineno - 1].endswith("# async only\n"):
            first = min([node.lineno, *(each.lineno for each in decorators(node))])
            lines[first - 1 : node.end_lineno] = [""] * (node.end_lineno - first + 1)
    return (
        "".join(lines)
        .replace("# sync: ", "")
        .replace("; make one for each `async with`", "; make one for each `with`")
        .replace("use it inside `async with`", "use it inside `with`")
    )


def decorators(node: ast.stmt) -> list[ast.expr]:
    """Return the decorators of a statement."""
    return getattr(node, "decorator_list", [])


def without_asyncio_types(text: str) -> str:
    """Return the text with types for threads where a new name alone would not do."""
    text = re.sub(r"Awaitable\[(\w+)\]", r"\1", text)
    text = re.sub(r"\n    Awaitable,", "", text)
    text = re.sub(r" \| AsyncIterable\[\w+\]", "", text)
    return re.sub(r"(AsyncGenerator\[\w+, None)\]", r"\1, None]", text)


def check() -> bool:
    """Whether the package is what would be written."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        made = {path.name: path.read_text() for path in Path(scratch).glob("*.py")}
    return made == {path.name: path.read_text() for path in TARGET.glob("*.py")}


def main() -> int:
    """Return 1 where --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    if not parser.parse_args().check:
        TARGET.mkdir(exist_ok=True)
        generate(TARGET)
        return 0
    if check():
        return 0
    print(f"{TARGET} is not what {SOURCE} makes: run scripts/{Path(__file__).name}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
