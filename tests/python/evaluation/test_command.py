"""The command `evaluate` where no server is needed: options, messages, tables."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from endcap.cli.app import app
from endcap.evaluation.annotations import Failure
from endcap.evaluation.coco import MEASURES, Accuracy, ClassAccuracy, Evaluation
from endcap.evaluation.report import as_table
from tests.support.coco_files import annotation, coco, write

BOX = [0.0, 0.0, 9.0, 9.0]
SHIPPED = str(Path(__file__).resolve().parents[3] / "model_repository")


def evaluate(*arguments: object) -> Result:
    runner = CliRunner(env={"COLUMNS": "80"})
    return runner.invoke(app, ["evaluate", *(str(each) for each in arguments)])


@pytest.fixture
def data(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path, write(tmp_path, coco(2, [annotation(1, 3, BOX)]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--reference", "x"], "--reference needs the parameters of the served model"),
        (["--reference", "x", "--predictions", "y"], "--reference and --predictions exclude"),
        (["--max-difference", "0.1"], "give --reference or --predictions"),
        (["--save-predictions", "no/such/file.json"], "cannot be written: No such file"),
        (["--save-predictions", "."], "file . cannot be written: it is a folder"),
        (["--save-predictions", "/proc/x.json"], "file /proc/x.json cannot be written: "),
        (["--repository", SHIPPED, "--reference", "no.onnx"], "no.onnx is not a file"),
        (["--predictions", "no.json"], "no.json cannot be read"),
        (["--repository", "no"], "is not a folder"),
        (["--repository", "no", "--reference", "x.onnx"], "no/detect/config.pbtxt cannot be read"),
        (["--url", "127.0.0.1:9"], "no Triton server responds"),
    ],
)
def test_what_cannot_be_done_is_one_error_message(
    data: tuple[Path, Path], options: list[str], said: str
) -> None:
    result = evaluate(*data, *options)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("endcap: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert "Traceback" in evaluate(*data, *options, "--verbose").stderr


@pytest.mark.parametrize("name", ["annotations.json", "2.jpg"])
def test_predictions_are_not_written_over_what_is_read(data: tuple[Path, Path], name: str) -> None:
    folder, _ = data
    target = folder / name
    before = target.read_bytes(), sorted(folder.iterdir())
    result = evaluate(*data, "--url", "127.0.0.1:9", "--save-predictions", target)
    assert result.exit_code == 2
    assert f"{target}, which is an input, would be overwritten" in result.stderr
    assert "give --save-predictions another file" in result.stderr
    assert (target.read_bytes(), sorted(folder.iterdir())) == before


def test_an_older_file_is_left_alone_where_nothing_is_measured(data: tuple[Path, Path]) -> None:
    folder, _ = data
    saved = folder / "saved.json"
    saved.write_text("old")
    before = sorted(folder.iterdir())
    assert evaluate(*data, "--url", "127.0.0.1:9", "--save-predictions", saved).exit_code == 2
    assert saved.read_text() == "old"
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("package", "install"),
    [
        ("pycocotools", "`pip install .*'pycocotools>="),
        ("cv2", "`pip install .*'opencv-python-headless>="),
        ("onnxruntime", "`pip install onnxruntime`"),
    ],
)
def test_a_missing_package_is_named(data: tuple[Path, Path], package: str, install: str) -> None:
    code = (
        f"import sys; sys.modules['{package}'] = None\n"  # as if it were not installed
        "from endcap.cli.app import main; main()"
    )
    command = [sys.executable, "-c", code, "evaluate", *map(str, data), "--repository", SHIPPED]
    command += ["--reference", "x.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"takes {package}, which cannot be imported" in done.stderr
    assert re.search(install, done.stderr)


# --- the table ------------------------------------------------------------------------------------

LONG = "a class with a name that is much longer than any column for it could ever be"


def made_up(value: float, *, empty: float | None = None) -> Accuracy:
    classes = (ClassAccuracy(1, LONG, 123456, value, value), ClassAccuracy(2, "x", 0, empty, empty))
    figures = {key: empty if key == "map_small" else value for key in MEASURES}
    return Accuracy(figures, classes)


def evaluation(other: Accuracy | None, *failures: Failure, note: str = "") -> Evaluation:
    return Evaluation(
        served=made_up(0.25),
        other=other,
        compared_with="a/file.onnx" if other else None,
        images=40,
        detections=300,
        lowest_score=0.001,
        failures=failures,
        notes=(note,) if note else (),
        problems=(),
    )


def printed(found: Evaluation) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(as_table(found))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in out.getvalue()
    return out.getvalue()


def row(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return line.removeprefix(name).split()


def test_one_column_without_a_comparison() -> None:
    text = printed(evaluation(None))
    assert row(text, "mAP50") == ["0.2500"]
    assert row(text, "mAP50-95 small") == ["-"]
    assert row(text, "x") == ["0", "-", "-"]
    assert "ref." not in text


def test_two_columns_and_their_difference() -> None:
    text = printed(evaluation(made_up(0.75, empty=0.5)))
    assert "ref. is a/file.onnx" in text
    assert row(text, "mAP75") == ["0.2500", "0.7500", "-0.5000"]
    assert row(text, "mAP50-95 small") == ["-", "0.5000", "-"]
    assert "123456  0.2500  0.7500  -0.5000" in text, "a long name takes no room from the figures"


def test_failures_and_notes_are_listed() -> None:
    failures = [Failure(f"{i}.jpg", "server", "timeout", "no [b]response[/b]") for i in range(25)]
    text = printed(evaluation(None, *failures, note="a note"))
    assert "3.jpg: timeout (server): no [b]response[/b]" in text
    assert "and 5 more" in text
    assert "Note: a note" in text
    assert not evaluation(None, *failures).ok
    assert evaluation(None).ok
