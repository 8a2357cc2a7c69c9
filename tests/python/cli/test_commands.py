"""The command line without a server: help, usage errors, failures, and which files are meant."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from endcap.cli.app import program
from endcap.cli.console import report_errors
from endcap.cli.images import expand_images
from endcap.errors import InvalidArgumentError
from tests.support.cli_runs import PROTOCOLS, assert_error_message, endcap

# --- what is read is not written over -------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_report_never_replaces_what_is_read(pictures: Path, tmp_path: Path) -> None:
    photo, link, labels = pictures / "b.jpg", tmp_path / "link", tmp_path / "labels.txt"
    link.symlink_to(photo)
    labels.write_text("ring\n")
    before = contents(pictures)
    for output, read in ((photo, photo), (link, photo), (labels, labels)):
        result = endcap("infer", pictures, "--labels", labels, "--json", "--output", output)
        by = f" by {output}" if output == link else ""
        assert_error_message(
            result,
            f"{read}, which is an input, would be overwritten{by}: give --output another file, or",
        )
    assert contents(pictures) == before
    assert labels.read_text() == "ring\n"


def test_pictures_never_replace_what_is_read(pictures: Path, tmp_path: Path) -> None:
    drawn = pictures / "b_detections.jpg"
    drawn.write_bytes((pictures / "a.JPEG").read_bytes())
    before = contents(pictures)
    (tmp_path / "link").symlink_to(pictures)
    for folder in (pictures, tmp_path / "link"):
        by = f" by {folder / drawn.name}" if folder != pictures else ""
        result = endcap("infer", pictures, "--draw", folder)
        assert_error_message(result, f"{drawn}, which is an input, would be overwritten{by}: give")
    assert contents(pictures) == before


@pytest.mark.parametrize("exists", [True, False])
def test_report_and_pictures_never_share_a_file(
    pictures: Path, tmp_path: Path, exists: bool
) -> None:
    output = tmp_path / "b_detections.jpg"
    if exists:
        output.write_bytes(b"a picture")
    (tmp_path / "link").symlink_to(tmp_path)
    result = endcap("infer", pictures, "--draw", tmp_path / "link", "--output", output)
    assert_error_message(result, f"--output and --draw both write {output}; change one of them")


@pytest.mark.parametrize("option", [[], ["--web"]], ids=["pictures", "web"])
def test_a_demo_never_replaces_what_is_read(pictures: Path, option: list[str]) -> None:
    (pictures / "b.jpg").rename(pictures / "server.log")
    before = contents(pictures)
    (pictures / "linked.jpg").symlink_to("server.log")
    arguments = ["--images", pictures, "--output", pictures, "--url", "127.0.0.1:9", *option]
    result = endcap("demo", *arguments)
    assert_error_message(result, "which is an input, would be overwritten", "another folder")
    (pictures / "linked.jpg").unlink()
    assert contents(pictures) == before


# --- help and usage -------------------------------------------------------------------------------


COMMANDS = [each.name for each in program(with_commands=True).registered_commands]


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=str)
def test_help_fits_80_columns_and_has_examples(command: list[str]) -> None:
    result = endcap(*command, "--help")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert f"endcap {command[0]} " if command else "endcap demo" in result.stdout
    assert "…" not in result.stdout, "nothing is cut off"


def test_a_mistyped_command_or_option_gets_a_hint() -> None:
    assert "Did you mean 'infer'?" in endcap("infre").stderr
    assert "--json" in endcap("infer", "a.jpg", "--jsn").stderr


def test_a_run_imports_its_own_command_only() -> None:
    code = """if True:
        import sys
        from endcap.cli.app import app
        app(["stub", "--help"], standalone_mode=False)
        names = ("batch", "demo", "evaluate", "infer", "parity", "serve", "stub")
        print([name for name in names if f"endcap.cli.{name}" in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['stub']"


def test_version_is_the_packages() -> None:
    result = endcap("--version")
    assert result.stdout == f"endcap {importlib.metadata.version('endcap')}\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["infer"],
        ["infer", "a.jpg", "--concurrency", "0"],
        ["serve"],
        ["infer", "--x"],
        ["infer", "a.jpg", "--json", "--csv"],
        ["infer", "a.jpg", "--csv", "--coco"],
        ["demo", "--port", "65536"],
    ],
)
def test_usage_errors_exit_with_2(arguments: list[str]) -> None:
    result = endcap(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
    assert result.stdout == ""


def test_invalid_images_are_errors(tmp_path: Path, pictures: Path) -> None:
    photo = pictures / "b.jpg"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert_error_message(endcap("infer", tmp_path / "no.jpg"), "no.jpg does not exist")
    assert_error_message(endcap("infer", f"{tmp_path}/*.jpg"), "matches no file")
    assert_error_message(endcap("infer", empty), "holds no image")
    assert_error_message(endcap("infer", photo, "--url", "ftp://x"), "the scheme ftp; use grpc://")
    assert_error_message(endcap("infer", photo, "--labels", tmp_path / "no.txt"), "no.txt")
    assert_error_message(endcap("serve", tmp_path / "no"), "is not a folder")
    assert_error_message(endcap("serve", empty), "holds no model")
    assert_error_message(endcap("serve", empty, "--log-file", "x"), "holds no model")
    assert_error_message(endcap("demo", "--images", empty), "holds no image")
    assert_error_message(endcap("infer", photo, "-o", empty), "is a folder")
    assert_error_message(endcap("infer", photo, "-o", tmp_path / "no" / "x"), "No such file")
    (tmp_path / "file").touch()
    in_the_way = endcap("infer", photo, "--draw", tmp_path / "file")
    assert_error_message(in_the_way, "cannot be created: File exists")
    for name in ("x.jpg", "x.PNG"):
        result = endcap("infer", photo, "--draw", tmp_path / name)
        assert_error_message(result, f"{name} is the name of a file; give a folder")


def test_a_defect_of_endcap_has_an_error_message(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, report_errors(verbose=False):
        raise KeyError("geometry")
    assert ended.value.exit_code == 3
    message = capsys.readouterr().err
    assert message == (
        "endcap: internal error (KeyError: 'geometry'): this is a defect of endcap; run it again "
        "with --verbose and report what that shows\n"
    )
    with pytest.raises(typer.Exit), report_errors(verbose=True):
        raise KeyError("geometry")
    assert "Traceback" in capsys.readouterr().err
    for control in (typer.Exit(0), typer.BadParameter("x")):
        with pytest.raises(type(control)), report_errors(verbose=False):
            raise control
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_server_is_an_error_and_verbose_shows_a_traceback(pictures: Path, protocol: str) -> None:
    arguments = ["infer", pictures, "--url", "127.0.0.1:9", "--protocol", protocol]
    assert_error_message(
        endcap(*arguments),
        f"no Triton server responds at {protocol}://127.0.0.1:9",
        "`endcap serve REPOSITORY`",
    )
    verbose = endcap(*arguments, "--verbose")
    assert verbose.exit_code == 2
    assert "Traceback" in verbose.stderr


def test_files_folders_and_patterns_are_expanded(pictures: Path) -> None:
    a, b = pictures / "a.JPEG", pictures / "b.jpg"
    (pictures / "notes.txt").write_text("not an image")
    assert expand_images([str(b), str(pictures), f"{pictures}/*.txt"]) == [
        b, a, b, pictures / "notes.txt",
    ]  # fmt: skip
    assert expand_images([f"{pictures.parent}/**/*.jp*g"]) == [b]


def test_files_that_a_folder_leaves_out_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.png", "b.WebP", "c.gif", "d.bmp"):
        (tmp_path / name).write_bytes(b"")
    images = expand_images([str(tmp_path)])
    assert [path.name for path in images] == ["a.png", "b.WebP", "c.gif", "d.bmp"]
    assert capsys.readouterr().err == ""
    for number in range(7):
        (tmp_path / f"photo{number}.heic\x1b[2J").write_bytes(b"")
    assert expand_images([str(tmp_path)]) == images
    said = capsys.readouterr().err
    assert f"skipped 7 files of {tmp_path}: {tmp_path}/photo0.heic\\x1b[2J, " in said
    assert said.endswith("photo4.heic\\x1b[2J and 2 more\n")


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in (tmp_path / "pipe.jpg", Path("/dev/zero")):
        result = endcap("infer", path, "--url", "127.0.0.1:9")
        assert_error_message(result, f"image {path} is a pipe or a device: give a file")
    with pytest.raises(InvalidArgumentError, match="holds no image"):
        expand_images([str(tmp_path)])


def test_folders_in_a_folder_are_searched_on_demand(pictures: Path) -> None:
    inner = pictures / "c" / "d"
    inner.mkdir(parents=True)
    for name in ("z.jpg", "y.jpg", "x.txt"):
        (inner / name).write_bytes((pictures / "b.jpg").read_bytes())
    (pictures / "c" / "loop").symlink_to(pictures)
    outer = [pictures / "a.JPEG", pictures / "b.jpg"]
    assert expand_images([str(pictures)]) == outer
    assert expand_images([str(pictures)], recursive=True) == [
        *outer, inner / "y.jpg", inner / "z.jpg"
    ]  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="--recursive includes its subfolders"):
        expand_images([str(pictures / "c")])


def refused(argument: object, *parts: str) -> None:
    assert_error_message(endcap("infer", argument, "--url", "127.0.0.1:1"), *parts)


def test_what_does_not_exist(pictures: Path) -> None:
    refused(pictures / "no" / "b.jpg", "b.jpg does not exist; check the path")
    refused(pictures / "*.png", "as a pattern matches no file")
    refused("https://host/photo.jpg", "is an address: download it, for example with `curl -O`")


def test_videos_are_of_infer_alone(pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = pictures / "clip.MP4"
    clip.write_bytes(b"\0\0\0\x20ftypisom")

    def refused_by_load(argument: object, *parts: str) -> None:
        assert_error_message(endcap("load", argument, "--url", "127.0.0.1:1"), *parts)

    advice = "a video is read by `endcap infer` alone: take frames out of it first"
    refused_by_load(clip, f"clip.MP4 is a video by its name; {advice}", "ffmpeg")
    refused_by_load(pictures / "*.MP4", "is a video by its name", "ffmpeg")
    assert expand_images([f"{pictures}/*"]) == [pictures / "a.JPEG", pictures / "b.jpg"]
    skipped = f"endcap: skipped 1 file of {pictures}/*: {clip}\n"
    assert capsys.readouterr().err == skipped
    for name in ("a.JPEG", "b.jpg"):
        (pictures / name).unlink()
    refused_by_load(pictures, "holds no image", f"1 of its files are videos, and {advice}")
