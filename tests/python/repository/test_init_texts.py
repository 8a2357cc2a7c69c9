"""Texts that `endcap init` writes and prints, and pip commands in all messages and templates."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import InvalidRequirement, Requirement

from tests.support import family_networks as families
from tests.support.family_networks import Network
from tests.support.init_runs import init

PACKAGE = Path(__file__).resolve().parents[3] / "pyext" / "endcap"
WHEEL = "endcap-0.1.0-cp311-cp311-linux_x86_64.whl"
_IN_BACKTICKS = re.compile(r"`(pip install\s[^`]+)`")
_ON_A_LINE = re.compile(r"^ +(pip install .+)$", re.MULTILINE)


def texts() -> Iterator[tuple[Path, str]]:
    """All templates, and all string literals of the code; what is filled in is `{}`."""
    for path in sorted(PACKAGE.rglob("*.j2")):
        yield path, path.read_text()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (
                    each.value if isinstance(each, ast.Constant) else "{}" for each in node.values
                )
                yield path, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, node.value


def pip_commands() -> dict[str, Path]:
    found = {
        " ".join(command.split()): path
        for path, text in texts()
        for command in (*_IN_BACKTICKS.findall(text), *_ON_A_LINE.findall(text))
    }
    return {command: path for command, path in found.items() if "{" not in command}


def is_accepted(argument: str, folder: Path) -> bool:
    """Whether pip takes an argument: an option, a requirement, or a file with or without extras."""
    if argument.startswith("-"):
        return True
    path = folder / re.sub(r"\[[^\]]*\]$", "", argument)  # as pip takes extras off
    if path.is_file():
        return True
    try:
        return Requirement(argument).url is None
    except InvalidRequirement:
        return False


def test_pip_accepts_each_command_in_messages_and_templates(tmp_path: Path) -> None:
    """In a folder with a wheel, as the shell expands them."""
    (tmp_path / WHEEL).touch()
    commands = pip_commands()
    assert len(commands) >= 5
    for command, path in commands.items():
        shown = command.replace("pip install", "printf '%s\\n'", 1)
        done = subprocess.run(
            ["bash", "-c", shown], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        refused = [each for each in done.stdout.split("\n")[:-1] if not is_accepted(each, tmp_path)]
        assert not refused, f"{path}: {command}"


@pytest.mark.parametrize(
    ("network", "options"),
    [
        (families.yolov8(), ("--preprocess", "dali", "--runtime", "tensorrt")),
        (families.classifier(), ("--head", "classification", "--preset", "torchvision")),
    ],
    ids=["for DALI", "classifier"],
)
def test_no_line_end_is_escaped(network: Network, options: tuple[str, ...], tmp_path: Path) -> None:
    done = init(network.write(tmp_path / "model.onnx"), *options)
    assert done.exit_code == 0, done.stderr
    written = (tmp_path / "models").rglob("*")
    texts = [each.read_text() for each in written if each.suffix in (".md", ".pbtxt")]
    for text in (done.stdout, done.stderr, *texts):
        assert "\\n" not in text


def test_names_of_a_network_are_no_links_in_the_readme(tmp_path: Path) -> None:
    network = families.yolov8()
    (output,) = network.outputs.values()
    name = "![x](http://evil/x.png) [y](javascript:z)"
    replace(network, outputs={name: output}).write(tmp_path / "model.onnx")
    done = init(tmp_path / "model.onnx", "--num-classes", "3")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "models" / "README.md").read_text()
    cells = [line for line in text.splitlines() if "evil" in line and line.startswith("|")]
    assert cells
    for line in cells:
        outside_of_code = re.sub(r"(`+).*?\1", "", line)
        assert not re.search(r"(?<!\\)\[[^\]]*\]\(", outside_of_code), line
