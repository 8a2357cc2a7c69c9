"""One thing wrong with a copy of a model of the shipped repository, and what is said of it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.doc_pages import ROOT

SHIPPED = ROOT / "model_repository"


@dataclass(frozen=True)
class Damage:
    """One model of the copy is edited, or changed by a function of its folder.

    says: how the problem begins; FOLDER stands for the model's folder.
    at: what stands in the line of the finding; None where it has no line.
    edits: texts of its config.pbtxt, each there once, and what they become.
    loads: whether a server loads the model all the same.
    hangs: whether a server's start waits for it without an end that a test could wait for.
    """

    model: str
    says: str
    at: str | None = None
    edits: tuple[tuple[str, str], ...] = ()
    change: Callable[[Path], object] = lambda folder: None
    severity: str = "error"
    loads: bool = False
    hangs: bool = False

    def apply(self, folder: Path) -> None:
        config = folder / "config.pbtxt"
        text = config.read_text(encoding="utf-8")
        for old, new in self.edits:
            assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {self.model}"
            text = text.replace(old, new)
        config.write_text(text, encoding="utf-8")
        self.change(folder)


def copy_model(model: str, repository: Path, *, name: str | None = None) -> Path:
    """Copy one model of the shipped repository, under another name if one is given."""
    folder = repository / (name or model)
    ignored = shutil.ignore_patterns("samples")
    shutil.copytree(SHIPPED / model, folder, ignore=ignored)
    config = folder / "config.pbtxt"
    text = re.sub(r"^name: .*$", f'name: "{folder.name}"', config.read_text(), flags=re.MULTILINE)
    config.write_text(text)
    return folder


def parameter(name: str, value: object) -> str:
    return f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}'


def added(line: str) -> tuple[tuple[str, str], ...]:
    """The edit that adds a line behind that of max_batch_size."""
    return (("max_batch_size: 16", f"max_batch_size: 16\n{line}"),)


def remove(*path: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        target = folder.joinpath(*path)
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return change


NO_CONFIG = "this is not a model configuration that Triton knows: "
IMAGES = "dims: [ 3, 640, 640 ]"
WARMUP = 'model_warmup {{ name: "one" batch_size: 1 inputs {{ key: "{}" value {{ {} }} }} }}'
