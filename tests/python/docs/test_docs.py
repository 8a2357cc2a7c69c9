"""What the documentation says is so: its code runs, its commands exist, nothing is missing."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image

import endcap
from endcap.cli.app import program as make_program
from endcap.errors import Status, error_for_status
from endcap.python_backend.failures import code_name
from tests.support import jpegs
from tests.support.doc_pages import PAGES, ROOT, Block, blocks, run_python
from tests.support.onnx_heads import write_one_box

# Their Python needs a server, tests/triton runs it; or DALI (tests/dali), or torch (tests/peers).
PAGES_RUN_ELSEWHERE = (
    "triton.md",
    "requests.md",
    "second_networks.md",
    "clients.md",
    "shared_memory.md",
    "migration.md",
    "opencv.md",
    "dali.md",
    "dali_triton.md",
    "data_sets.md",
    "monitoring.md",
    "tracking_server.md",
    "tutorial.md",
    "tutorial_serve.md",
    "video.md",
)
PYTHON_PAGES = [
    page
    for page in PAGES
    if page.name not in PAGES_RUN_ELSEWHERE and any(b.language == "python" for b in blocks(page))
]
# Classes that stay inside the package, or reach users as another class.
INTERNAL_ERRORS = {
    "MissingOptionError",
    "ModelCallError",
    "RequestCancelledError",
    "UnknownOperatorError",
}
# A shell line that runs endcap, perhaps behind variables and from a folder.
ENDCAP_LINE = re.compile(r"^\s*(?:\w+=\S+\s+)*(?:\S*/)?endcap\s+(?P<arguments>\S.*)$", re.MULTILINE)
SHELL_BLOCKS = [
    block
    for page in PAGES
    for block in blocks(page)
    if block.language in ("sh", "") and ENDCAP_LINE.search(block.text)
]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unforced: None) -> dict[str, Any]:
    """A folder with photo.jpg, drawing.png and model.onnx, and the names of README.md."""
    monkeypatch.chdir(tmp_path)
    photo = jpegs.photo_jpeg(720, 1280)
    Path("photo.jpg").write_bytes(photo)
    Image.new("RGB", (64, 48)).save("drawing.png")
    write_one_box(Path("model.onnx"))
    random = np.random.default_rng(1)
    corners = random.uniform(0, 300, (20, 2))
    return {
        "jpeg": photo,
        "head": random.uniform(0, 1, (1, 84, 8400)).astype(np.float32),
        "boxes": np.hstack([corners, corners + 100]).astype(np.float32),
        "scores": random.uniform(0, 1, 20).astype(np.float32),
        "class_ids": random.integers(0, 3, 20),
    }


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, reader: dict[str, Any]) -> None:
    python = [block for block in blocks(page) if block.language == "python"]
    compared = sum([run_python(block, reader) for block in python])
    assert compared > 0 or page.name == "README.md", "a page of docs/ promises no value"


def commands(block: Block) -> list[list[str]]:
    """The endcap commands of a shell block, as lists of words."""
    text = block.text.replace("\\\n", " ")
    lines = [match["arguments"] for match in ENDCAP_LINE.finditer(text)]
    return [to_words(line) for line in lines]


def to_words(line: str) -> list[str]:
    """The words that the program gets: without a comment, a pipe, `&`, or where output goes."""
    words = shlex.split(line, comments=True)
    ends = [words.index(word) for word in (">", "|", "&&", "&") if word in words]
    return words[: min(ends, default=None)]


def parses(arguments: list[str]) -> None:
    """Raises a usage error where the program does not take these arguments; runs nothing."""
    program: Any = typer.main.get_command(make_program(with_commands=True))
    context = program.context_class(program, info_name="endcap")
    name, *rest = arguments
    if name == "--version":
        assert any("--version" in p.opts for p in program.get_params(context))
        return
    command = program.commands[name]
    while hasattr(command, "commands"):  # a group, such as `stub`
        context = command.context_class(command, info_name=name, parent=context)
        name, *rest = rest
        command = command.commands[name]
    command.make_context(name, rest, parent=context)


def every_command(group: Any) -> dict[str, Any]:
    """The commands by the words that call them."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        below = every_command(command) if hasattr(command, "commands") else {"": command}
        found.update({f"{name} {rest}".strip(): each for rest, each in below.items()})
    return found


@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=str)
def test_commands_in_pages_exist_and_take_these_options(block: Block) -> None:
    found = commands(block)
    assert found
    for arguments in found:
        parses(arguments)


def test_examples_of_every_command_exist_and_take_these_options() -> None:
    program: Any = typer.main.get_command(make_program(with_commands=True))
    for name, command in every_command(program).items():
        examples = re.findall(r"`endcap ([^`]+)`", command.epilog or "")
        assert examples, f"endcap {name} --help has no example"
        for example in examples:
            parses(to_words(example))


def test_a_wrong_command_would_be_found() -> None:
    text = "FOO=1 .venv/bin/endcap infer photo.jpg --jsn  # a comment\nendcap nosuch\n"
    option, command = commands(Block(ROOT / "page.md", 1, "sh", "", text))
    with pytest.raises(Exception, match="--jsn"):
        parses(option)
    with pytest.raises(KeyError, match="nosuch"):
        parses(command)


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The extension of Sphinx that writes docs/_generated."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("generated")


def test_the_page_of_commands_has_every_command(generated: Any) -> None:
    sections = re.findall(r"^##+ `endcap (.*)`$", generated.commands(), re.MULTILINE)
    program: Any = typer.main.get_command(make_program(with_commands=True))
    assert set(sections) == {*every_command(program), *program.commands}


def test_every_preset_has_an_origin(generated: Any) -> None:
    for name in endcap.presets():
        assert re.search(rf"^\| `{name}` \| \w", generated.presets(), re.MULTILINE), name


def test_the_page_of_errors_has_every_status_and_class() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    for status in list(Status)[1:]:
        error = error_for_status(status, "")
        start = rf"\| {int(status)} \| `{status.label}` \| `{type(error).__name__}` "
        assert re.search(f"{start}.*{code_name(error)}", page), status
    sources = "".join(p.read_text("utf-8") for p in (ROOT / "pyext" / "endcap").rglob("*.py"))
    classes = set(re.findall(r"^class ([A-Z]\w*Error)\b", sources, re.MULTILINE))
    assert {name for name in classes if f"`{name}`" not in page} == INTERNAL_ERRORS


def test_every_parameter_is_explained() -> None:
    for row in endcap.Preprocessor().describe() + endcap.Postprocessor().describe():
        assert row.meaning, row.name
        assert row.allowed, row.name
        assert row.value, row.name


def test_the_installation_page_lists_every_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    extras = importlib.metadata.metadata("endcap").get_all("Provides-Extra")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == extras


@pytest.mark.parametrize("name", ["gpu_quickstart.md", "errors.md"])
def test_messages_of_a_page_are_in_the_sources(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    sources = [*(ROOT / "csrc").rglob("*.cc"), *(ROOT / "pyext").rglob("*.py")]
    texts = [source.read_text(encoding="utf-8") for source in sources]
    assert len(messages) >= 5
    assert [each for each in messages if not any(each in text for text in texts)] == []
