"""What goes into the kit for a GPU machine, and what is refused."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_wheel  # noqa: E402
import gpu_kit  # noqa: E402
from steps import BuildError, Steps  # noqa: E402

TAG = "cp{}{}".format(*sys.version_info[:2])
WHEEL = f"endcap-1.2.3-{TAG}-{TAG}-manylinux_2_35_x86_64.whl"


class Checked:
    """Stands for the checks of a wheel: notes what they were asked, finds `problems`."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.asked: list[tuple[str, frozenset[int]]] = []

    def check(self, wheel: Path, *, machine_code: frozenset[int]) -> Iterator[str]:
        self.asked.append((wheel.name, machine_code))
        yield from self.problems


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Checked:
    stands_for = Checked()
    monkeypatch.setattr(check_wheel, "check", stands_for.check)
    return stands_for


@pytest.fixture
def options(
    tmp_path: Path, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> argparse.Namespace:
    """Of a kit that can be made, without network and server."""
    make_wheel(tmp_path / "dist" / WHEEL)

    def fetch(_: Steps, target: Path, tag: str) -> None:
        make_wheel(target / f"iniconfig-1-{tag}-{tag}-any.whl")

    def pack_server(target: Path) -> None:
        target.write_bytes(bytes(200_000))

    monkeypatch.setattr(gpu_kit, "fetch", fetch)
    monkeypatch.setattr(gpu_kit, "pack_server", pack_server)
    return argparse.Namespace(
        output=tmp_path / "kit",
        wheels=tmp_path / "dist",
        python=Path(sys.executable),
        architectures="90-real",
        variants=None,
    )


def make_wheel(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("endcap/__init__.py", "VERSION = '1.2.3'\n")


def make_variants(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / gpu_kit.CUDA_LIBRARY).write_bytes(name.encode())
    folder.mkdir(exist_ok=True)
    (folder / "variants.json").write_text("{}")


def test_a_kit_has_its_parts_and_what_it_was_made_from(
    options: argparse.Namespace, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    total = gpu_kit.make_kit(options)
    files = {path for path in options.output.rglob("*") if path.is_file()}
    other = f"wheels/iniconfig-1-{TAG}-{TAG}-any.whl"
    expected = ("commit", "kit.json", "tritonserver.tar.xz", f"wheels/{WHEEL}", other)
    assert {str(path.relative_to(options.output)) for path in files} == {*expected}
    assert checked.asked == [(WHEEL, frozenset({90}))]
    assert abs(total - sum(path.stat().st_size for path in files)) < 10  # "complete" changes
    facts = json.loads((options.output / "kit.json").read_text())
    assert facts["complete"] is True
    assert facts["python"] == TAG
    assert facts["architectures"] == "90-real"
    described = (options.output / "commit").read_text().strip()
    assert facts["commit"].startswith(described.removesuffix("-dirty"))
    assert facts["dirty"] == described.endswith("-dirty")
    with zipfile.ZipFile(options.output / "wheels" / WHEEL) as archive:
        (entry,) = archive.infolist()
        assert entry.compress_type == zipfile.ZIP_LZMA
        assert archive.read(entry) == b"VERSION = '1.2.3'\n"
    printed = capsys.readouterr().out
    assert "packages of the tests ..." in printed
    assert " s] server" in printed
    assert re.search(rf"all +{total / 1e6:.2f} MB", printed)


def test_variants_are_packed(
    options: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_kit, "missing_machine_code", lambda *_: iter(()))
    make_variants(tmp_path / "variants", "default", "threads-128")
    options.variants = tmp_path / "variants"
    gpu_kit.make_kit(options)
    unpack = ROOT / "tests" / "gpu" / "unpack_kit.py"
    command = [sys.executable, str(unpack), "variants", str(options.output), str(tmp_path / "out")]
    subprocess.run(command, check=True)
    for name in ("default", "threads-128"):
        unpacked = tmp_path / "out" / name / gpu_kit.CUDA_LIBRARY
        assert unpacked.read_bytes() == name.encode()
    assert (tmp_path / "out" / "variants.json").read_text() == "{}"
    facts = json.loads((options.output / "kit.json").read_text())
    assert facts["variants"] == ["default", "threads-128"]


def refused(options: argparse.Namespace) -> str:
    with pytest.raises(BuildError) as caught:
        gpu_kit.make_kit(options)
    return str(caught.value)


def test_a_wheel_for_another_python_alone_is_refused(options: argparse.Namespace) -> None:
    wheel = options.wheels / WHEEL
    other = wheel.rename(options.wheels / WHEEL.replace(TAG, "cp27"))
    message = refused(options)
    assert other.name in message
    assert f"expected one wheel of endcap for {TAG}" in message
    other.unlink()
    assert "holds no wheel" in refused(options)
    assert not options.output.exists()


def test_a_problem_of_the_wheel_is_named(options: argparse.Namespace, checked: Checked) -> None:
    checked.problems = ["libendcap_cuda.so has no machine code for compute capability 9.0"]
    assert refused(options) == f"{WHEEL}: {checked.problems[0]}"
    assert not options.output.exists()


def test_a_kit_that_is_too_large_is_refused(
    options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    total = gpu_kit.make_kit(options)
    monkeypatch.setattr(gpu_kit, "MAX_BYTES", total)
    gpu_kit.make_kit(options)
    monkeypatch.setattr(gpu_kit, "MAX_BYTES", total - 1)
    capsys.readouterr()
    message = refused(options)
    assert "takes 0.2 MB" in message
    assert "VARIANTS=none" in message
    assert re.search(r"tritonserver.tar.xz +0\.20 MB", capsys.readouterr().out)
    assert json.loads((options.output / "kit.json").read_text())["complete"] is False


def test_variants_without_machine_code_are_refused(
    options: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options.variants = tmp_path / "variants"
    make_variants(options.variants)
    assert "VARIANTS=none" in refused(options)
    make_variants(options.variants, "default")

    def missing(library: Path, wanted: frozenset[int]) -> Iterator[str]:
        yield f"has no machine code for {sorted(wanted)}"

    monkeypatch.setattr(gpu_kit, "missing_machine_code", missing)
    message = refused(options)
    assert message.endswith("has no machine code for [90]")
    assert str(options.variants / "default") in message


def test_a_folder_with_other_files_is_left_alone(options: argparse.Namespace) -> None:
    options.output.mkdir()
    theirs = options.output / "thesis.tex"
    theirs.write_text("mine")
    assert "no kit.json" in refused(options)
    assert theirs.read_text() == "mine"
    theirs.unlink()
    gpu_kit.make_kit(options)
    left = options.output / "wheels" / "old-1-py3-none-any.whl"
    left.write_bytes(b"of the kit before")
    gpu_kit.make_kit(options)
    assert not left.exists()


def test_a_download_that_fails_leaves_an_incomplete_kit(
    options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(steps: Steps, target: Path, tag: str) -> None:
        steps.run(sys.executable, "-c", "import sys; sys.exit('no route to the index')")

    monkeypatch.setattr(gpu_kit, "fetch", fetch)
    assert "no route to the index" in refused(options)
    assert json.loads((options.output / "kit.json").read_text())["complete"] is False


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no-such-package is not installed"):
        gpu_kit.pinned("no-such-package")
    assert gpu_kit.pinned("pytest") == f"pytest=={pytest.__version__}"
    monkeypatch.setattr(gpu_kit.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BuildError, match="nvidia-pytriton is not installed"):
        gpu_kit.pack_server(tmp_path / "server.tar.xz")


def test_the_command_line_ends_with_the_message(tmp_path: Path) -> None:
    command = (ROOT / "scripts" / "gpu_kit.py", tmp_path / "kit", "--wheels", tmp_path)
    rest = ("--python", sys.executable, "--architectures", "90-virtual")
    with pytest.raises(BuildError, match="holds no wheel"):
        Steps().run(sys.executable, *command, *rest)
    make_wheel(tmp_path / WHEEL)
    with pytest.raises(BuildError, match="PTX alone"):
        Steps().run(sys.executable, *command, *rest)
