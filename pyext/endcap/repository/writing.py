"""Writing of a repository, whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from endcap._files import refuse_foreign_link, whole_folder
from endcap.errors import InvalidArgumentError
from endcap.repository.options import PreprocessBackend, Runtime
from endcap.repository.plan import Plan
from endcap.repository.rendering import render
from endcap.triton.installation import find_our_backends

# Of the repository that comes with endcap.
_WARM_UP_PICTURE = Path("detect") / "samples" / "shapes_320x240.jpg"


def check_target(target: Path) -> None:
    """Raise InvalidArgumentError unless a folder is empty, or only its parent exists."""
    refuse_foreign_link(target)
    if os.path.lexists(target) and not target.is_dir():
        raise InvalidArgumentError(
            f"{target} is a file or a broken link; give --output a folder that is not there"
        )
    if not target.resolve().name.isprintable():
        raise InvalidArgumentError(
            f"{target.name!r} has control characters; give --output another folder"
        )
    if target.is_dir() and any(target.iterdir()):
        raise InvalidArgumentError(
            f"folder {target} is not empty, and nothing in it is overwritten; give --output "
            "another folder, or remove that one"
        )
    if not (parent := target.resolve().parent).is_dir():
        raise InvalidArgumentError(f"{parent} is not a folder; make it, or give another --output")


def write_repository(plan: Plan, target: Path, *, shipped: Path) -> None:
    """Write the repository of a plan to `target`, which is empty or not there.

    `shipped` is the repository that comes with endcap: the warm-up's image, code of Python models.

    Raises:
        InvalidArgumentError: As `check_target`, or another process has written there.
        ServerError: The backends are not installed.
        OSError: A file cannot be read or written. In all cases nothing is left behind.
    """
    check_target(target)
    copies = _copies(plan)
    with whole_folder(target) as folder:
        picture_bytes = (shipped / _WARM_UP_PICTURE).stat().st_size
        texts = render(plan, target.resolve().name, picture_bytes=picture_bytes)
        written = {path: text.encode() for path, text in texts.items()} | _contents(plan, shipped)
        for path in (*written, *copies):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
        for path, content in written.items():
            (folder / path).write_bytes(content)
        for path, source in copies.items():  # readable for no more users than before
            shutil.copyfile(source, folder / path)
            mode = (folder / path).stat().st_mode & source.stat().st_mode
            (folder / path).chmod(stat.S_IMODE(mode))
        for model in plan.names.all:
            (folder / model / "1").mkdir(exist_ok=True)


def _contents(plan: Plan, shipped: Path) -> dict[str, bytes]:
    names = plan.names
    encoded = (shipped / _WARM_UP_PICTURE).read_bytes()
    contents = {
        # An element of a BYTES tensor: its length in four bytes, the lowest first, and itself.
        f"{names.preprocess}/warmup/encoded": len(encoded).to_bytes(4, "little") + encoded,
    }
    if plan.options.preprocess is PreprocessBackend.dali:  # whose backend takes it unmodified
        contents[f"{names.preprocess}/warmup/picture.jpg"] = encoded
    for model, stage in (
        (names.preprocess, f"preprocess_{plan.options.preprocess.value}"),
        (names.postprocess, f"postprocess_{plan.options.postprocess.value}"),
    ):
        if model and not stage.endswith("_cpp"):
            contents[f"{model}/1/model.py"] = (shipped / stage / "1" / "model.py").read_bytes()
    if plan.network.external_files:
        relocated = plan.network.relocated(plan.network.weight_names())
        contents[_network_path(plan, "model.onnx")] = relocated
    if plan.classes.names is not None:
        lines = "".join(f"{name}\n" for name in plan.classes.names).encode()
        contents[f"{names.network}/labels.txt"] = lines
        if plan.is_classifier:
            contents[f"{names.postprocess}/labels.txt"] = lines
    return contents


def _copies(plan: Plan) -> dict[str, Path]:
    """Return the large files, by their path in the repository."""
    network = plan.network
    copies = {}
    if not network.external_files:
        copies[_network_path(plan, "model.onnx")] = network.file
    for location, name in network.weight_names().items():
        copies[_network_path(plan, name)] = network.external_files[location]
    if plan.options.self_contained:
        backends = find_our_backends()
        for model, backend in plan.our_backends.items():
            for file in sorted(path for path in backends[backend].iterdir() if path.is_file()):
                copies[f"{model}/{file.name}"] = file
    return copies


def _network_path(plan: Plan, name: str) -> str:
    """Return the path in the repository of a file that belongs to the network itself."""
    version = "1/" if plan.options.runtime is not Runtime.tensorrt else ""
    return f"{plan.names.network}/{version}{name}"
