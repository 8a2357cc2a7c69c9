"""Writes a repository whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

from endcap.errors import InvalidArgumentError
from endcap.repository.onnx_file import OnnxFile
from endcap.repository.options import FirstEnd, Runtime
from endcap.repository.plan import Plan
from endcap.repository.rendering import render
from endcap.server.backend_directory import find_our_backends

_OF_THE_SOURCE = (errno.ENOENT, errno.EACCES, errno.EISDIR)
# Of the repository that comes with endcap.
_WARM_UP_PICTURE = Path("detect") / "samples" / "shapes_320x240.jpg"
_PYTHON_ENDS = {
    "preprocess": {"python": "preprocess_python", "dali": "preprocess_dali"},
    "postprocess": {"python": "postprocess_python"},
}
_MODEL_ON_ONNX_RUNTIME = Path("detector") / "1" / "model.py"


def check_target(target: Path) -> None:
    """Raises InvalidArgumentError where the repository cannot be made without losing something."""
    if target.exists() and not target.is_dir():
        raise InvalidArgumentError(f"{target} is a file; give --output a folder that is not there")
    if target.is_dir() and any(target.iterdir()):
        raise InvalidArgumentError(
            f"folder {target} is not empty, and nothing in it is overwritten; give --output "
            "another folder, or remove that one"
        )
    parent = target.resolve().parent
    if not parent.is_dir():
        raise InvalidArgumentError(f"{parent}, where {target.name} is to be, is no folder; make it")


def write_repository(plan: Plan, target: Path, *, shipped: Path) -> None:
    """Writes the repository of a plan to `target`, which is empty or not there.

    shipped: the repository that comes with endcap, from which the warm-up's picture is, and the
    code of a Python model. Raises InvalidArgumentError as `check_target`, ServerError when the
    backends are not installed, and OSError; then nothing is left behind.
    """
    check_target(target)
    with _whole_folder(target) as folder:
        picture_bytes = (shipped / _WARM_UP_PICTURE).stat().st_size
        texts = render(plan, target.resolve().name, picture_bytes=picture_bytes)
        for path, text in texts.items():
            _write(folder / path, text.encode())
        for path, content in _contents(plan, shipped).items():
            _write(folder / path, content)
        for path, source in _copies(plan).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            _copy(source, folder / path)
        for model in astuple(plan.names):
            (folder / model / "1").mkdir(exist_ok=True)


def _contents(plan: Plan, shipped: Path) -> dict[str, bytes]:
    names = plan.names
    encoded = (shipped / _WARM_UP_PICTURE).read_bytes()
    contents = {
        # An element of a BYTES tensor: its length in four bytes, the lowest first, and itself.
        f"{names.preprocess}/warmup/encoded": len(encoded).to_bytes(4, "little") + encoded,
    }
    if plan.options.preprocess is FirstEnd.dali:  # whose backend takes it as it is
        contents[f"{names.preprocess}/warmup/picture.jpg"] = encoded
    for model, end, models in (
        (names.preprocess, plan.options.preprocess, _PYTHON_ENDS["preprocess"]),
        (names.postprocess, plan.options.postprocess, _PYTHON_ENDS["postprocess"]),
    ):
        if end.value in models:
            path = Path(models[end.value]) / "1" / "model.py"
            contents[f"{model}/1/model.py"] = (shipped / path).read_bytes()
    if plan.options.runtime is Runtime.python:
        code = (shipped / _MODEL_ON_ONNX_RUNTIME).read_bytes()
        contents[f"{names.network}/1/model.py"] = code
    if plan.network.external_files:
        relocated = plan.network.relocated(_weight_names(plan.network))
        contents[_network_path(plan, "model.onnx")] = relocated
    if plan.classes.names is not None:
        lines = "".join(f"{name}\n" for name in plan.classes.names).encode()
        contents[f"{names.network}/labels.txt"] = lines
        if plan.is_classifier:
            contents[f"{names.postprocess}/labels.txt"] = lines
    return contents


def _copies(plan: Plan) -> dict[str, Path]:
    """The large files, by their path in the repository."""
    names, network = plan.names, plan.network
    copies = {}
    if not network.external_files:
        copies[_network_path(plan, "model.onnx")] = network.file
    for location, name in _weight_names(network).items():
        copies[_network_path(plan, name)] = network.external_files[location]
    if plan.options.self_contained:
        backends = find_our_backends()
        for model, backend, end in (
            (names.preprocess, "endcap_preprocess", plan.options.preprocess),
            (names.postprocess, "endcap_postprocess", plan.options.postprocess),
        ):
            if end.value != "cpp":
                continue
            for file in sorted(path for path in backends[backend].iterdir() if path.is_file()):
                copies[f"{model}/{file.name}"] = file
    return copies


def _network_path(plan: Plan, name: str) -> str:
    """The path in the repository of a file that belongs to the network itself."""
    version = "1/" if plan.options.runtime is not Runtime.tensorrt else ""
    return f"{plan.names.network}/{version}{name}"


def _weight_names(network: OnnxFile) -> dict[str, str]:
    """Names for the files of weights, by location: the file's own may be those of other files."""
    numbers = ["", *(f"_{number}" for number in range(2, len(network.external_files) + 1))]
    locations = sorted(network.external_files)
    return {each: f"weights{number}.bin" for each, number in zip(locations, numbers, strict=False)}


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        place = source if error.errno in _OF_THE_SOURCE else target.parent
        raise OSError(error.errno, error.strerror, str(place)) from error


@contextlib.contextmanager
def _whole_folder(target: Path) -> Iterator[Path]:
    """Gives a folder whose content is in `target` when the block ends well, and nowhere else.

    A folder that is there already stays the one that it is, with its owner and mounts.
    """
    place = target.resolve()
    is_there = place.is_dir()
    name = f".{place.name}.{os.getpid()}.partial"
    partial = place / name if is_there else place.with_name(name)
    partial.mkdir()
    moved: list[Path] = []
    try:
        yield partial
        if not is_there:
            partial.rename(place)
            return
        for entry in sorted(partial.iterdir()):
            moved.append(entry.rename(place / entry.name))
    except BaseException:
        for entry in moved:
            _remove(entry)
        raise
    finally:
        _remove(partial)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
