"""What a wheel is built with, when it is built again, and how steps are reported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_wheel  # noqa: E402
import steps  # noqa: E402
from build_wheel import WheelBuilder, WheelOptions  # noqa: E402
from steps import BuildError, Steps  # noqa: E402

WHEEL = "endcap-1.2.3-cp312-cp312-manylinux_2_35_x86_64.whl"


class Builder(WheelBuilder):
    """Builds a file in place of a wheel, and counts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "work", folder / "dist")
        self.made = folder / WHEEL
        self.built: list[WheelOptions] = []
        self.bills: list[tuple[Path, WheelOptions]] = []
        (folder / "work").mkdir()
        self.made.write_bytes(b"wheel")

    def _build_unpacked(self, archive: Path, options: WheelOptions) -> Path:
        self.built.append(options)
        return self.made

    def _add_bill(self, wheel: Path, options: WheelOptions) -> None:
        self.bills.append((wheel, options))

    def _tag(self, wheel: Path) -> Path:
        return wheel


def test_a_wheel_for_arm64_is_cross_compiled(tmp_path: Path) -> None:
    options = WheelOptions("OFF", arm64_sysroot=str(tmp_path))
    assert f"-Ccmake.define.ENDCAP_ARM64_SYSROOT={tmp_path}" in options.settings()
    assert options.environment()["_PYTHON_HOST_PLATFORM"] == "linux-aarch64"
    assert options.environment()["SETUPTOOLS_EXT_SUFFIX"].endswith("-aarch64-linux-gnu.so")
    assert WheelOptions().environment() == {}


def test_a_wheel_for_arm64_needs_headers_of_this_python_and_no_cuda(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="without GPU code: give --cuda OFF"):
        WheelOptions("ON", arm64_sysroot=str(tmp_path)).check()
    options = WheelOptions("OFF", arm64_sysroot=str(tmp_path))
    with pytest.raises(
        BuildError, match=r"there is no .*/Python\.h: run scripts/arm64_sysroot\.sh"
    ):
        options.check()
    headers = tmp_path / "usr" / "include" / "python{}.{}".format(*sys.version_info)
    headers.mkdir(parents=True)
    (headers / "Python.h").touch()
    options.check()


def test_other_options_build_again_and_the_same_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(check_wheel, "check", lambda *_, **kwargs: asked.append(kwargs) or [])
    builder = Builder(tmp_path)
    archive = tmp_path / "endcap-1.2.3.tar.gz"
    archive.write_bytes(b"source")
    all_of_them, one = WheelOptions(), WheelOptions("OFF")
    for options in (all_of_them, all_of_them, one, one):
        assert builder.build_wheel(archive, options) == tmp_path / "dist" / WHEEL
    assert builder.built == [all_of_them, one]
    assert [options for _, options in builder.bills] == builder.built
    assert [each["cuda"] for each in asked] == [True, False]
    archive.write_bytes(b"changed")
    builder.build_wheel(archive, one)
    (tmp_path / "dist" / WHEEL).unlink()
    builder.build_wheel(archive, one)
    assert builder.built == [all_of_them, one, one, one]


def test_a_wheel_replaces_those_of_its_own_python_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_wheel, "check", lambda *_, **_options: [])
    names = {
        "endcap-1.2.3-cp312-cp312-manylinux_2_17_x86_64.whl": False,
        "endcap-1.2.3-cp312-cp312t-manylinux_2_35_x86_64.whl": True,
        "endcap-1.2.3-cp311-cp311-manylinux_2_35_x86_64.whl": True,
    }
    (tmp_path / "dist").mkdir()
    for name in names:
        (tmp_path / "dist" / name).touch()
    archive = tmp_path / "endcap-1.2.3.tar.gz"
    archive.write_bytes(b"source")
    Builder(tmp_path).build_wheel(archive, WheelOptions())
    left = {path.name for path in (tmp_path / "dist").iterdir()}
    assert left == {WHEEL, *(name for name, kept in names.items() if kept)}


def test_a_wheel_with_a_problem_stays_out_of_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_wheel, "check", lambda *_, **__: ["libx.so is missing"])
    archive = tmp_path / "endcap-1.2.3.tar.gz"
    archive.write_bytes(b"source")
    with pytest.raises(BuildError, match=f"{WHEEL}: libx.so is missing"):
        Builder(tmp_path).build_wheel(archive, WheelOptions())
    assert not (tmp_path / "dist").exists()


def test_a_command_reports_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "print('[1/3] a'); print('no count'); print('[3/3] c')"
    assert Steps().run(sys.executable, "-c", program) == "[1/3] a\nno count\n[3/3] c\n"
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(steps, "_SECONDS_BETWEEN_REPORTS", 0)
    Steps().run(sys.executable, "-c", program)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split("] ")[1].strip() for line in printed] == [
        "1 of 3 files compiled",
        "3 of 3 files compiled",
    ]


def test_a_silent_command_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps, "_LONGEST_SILENCE_S", 0.2)
    Steps().run(sys.executable, "-c", "import time; time.sleep(1)")
    assert "running" in capsys.readouterr().out
    program = "import time; print('[1/3] a', flush=True); time.sleep(1)"
    Steps().run(sys.executable, "-c", program)
    assert "1 of 3 files compiled" in capsys.readouterr().out


def test_a_command_that_fails_gives_its_output() -> None:
    with pytest.raises(BuildError, match=r"(?s)half done.*failed with exit status 3"):
        Steps().run(sys.executable, "-c", "print('half done'); raise SystemExit(3)")
    with pytest.raises(BuildError, match="cannot be started"):
        Steps().run("/no/such/program")


def test_steps_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    timed = Steps()
    with timed.step("first"):
        pass
    with pytest.raises(ValueError, match="wrong"), timed.step("second"):
        raise ValueError("wrong")
    assert [*timed.seconds] == ["first"]
    assert capsys.readouterr().out == "[   0 s] first ...\n[   0 s] second ...\n"
