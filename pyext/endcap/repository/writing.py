"""Texts and files of a repository, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from endcap._files import refuse_foreign_link, whole_folder
from endcap._pip_commands import import_extra
from endcap.errors import InvalidArgumentError
from endcap.repository.errors import RepositoryError
from endcap.repository.options import NO_HEAD, decided_values
from endcap.repository.plan import Plan
from endcap.triton.installation import find_our_backends
from endcap.triton.model_contract import postprocess_contract, preprocess_contract
from endcap.triton.stage_settings import dali_arguments
from endcap.triton.tensor_spec import TensorSpec

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_NOTES = {
    "num_detections": "how many of the rows below count",
    "detection_boxes": "x1, y1, x2, y2 in pixels of the source image",
    "detection_scores": "0 to 1, best first",
    "detection_classes": "class id, from 0",
    "detection_indices": "which row of the head; -1 in rows that do not count",
    "class_scores": "best first",
    "class_ids": "from 0, in the order of the scores",
    "class_labels": "their names",
    "class_probabilities": "the scores of all classes in their order",
    "detection_keypoints": "x, y in pixels of the source image, and visibility",
    "detection_angles": "rotation of a box around its centre in radians, clockwise to the eye",
    "detection_masks": "a bit for each pixel, as numpy.unpackbits reads them",
    "mask_size": "height and width of the masks",
    "detection_rle": "masks as COCO's compressed RLE, empty in rows that do not count",
    "class_map": "class id of each pixel; needs images of one size, or one image in a request",
    "map_size": "height and width of the class map",
    "class_map_png": "the class map as a PNG file of gray pixels",
    "class_rle": "each class's pixels as COCO's compressed RLE, empty where there are none",
    "status": "0, or the failure class of a blanked image",
    "geometry": "how the image lies in the tensor: scale_x, scale_y, pad_x, pad_y and more",
}
_SIDES = ("geometry", "status")  # inputs of postprocess in addition to the head
_ENCODED_BYTES = TensorSpec("encoded", "UINT8", (-1,))  # of NVIDIA's DALI backend
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
    copies = _find_copies(plan)
    with whole_folder(target) as folder:
        picture_bytes = (shipped / _WARM_UP_PICTURE).stat().st_size
        texts = render(plan, target.resolve().name, picture_bytes=picture_bytes)
        written = {path: text.encode() for path, text in texts.items()} | _make_files(plan, shipped)
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


def _make_files(plan: Plan, shipped: Path) -> dict[str, bytes]:
    names = plan.names
    encoded = (shipped / _WARM_UP_PICTURE).read_bytes()
    contents = {
        # An element of a BYTES tensor: its length in four bytes, the lowest first, and itself.
        f"{names.preprocess}/warmup/encoded": len(encoded).to_bytes(4, "little") + encoded,
    }
    if plan.options.preprocess == "dali":  # whose backend takes it unmodified
        contents[f"{names.preprocess}/warmup/picture.jpg"] = encoded
    for model, stage in (
        (names.preprocess, f"preprocess_{plan.options.preprocess}"),
        (names.postprocess, f"postprocess_{plan.options.postprocess}"),
    ):
        if model and not stage.endswith("_cpp"):
            contents[f"{model}/1/model.py"] = (shipped / stage / "1" / "model.py").read_bytes()
    if plan.network.external_files:
        relocated = plan.network.relocate_weights(plan.network.weight_names())
        contents[_place_in_network(plan, "model.onnx")] = relocated
    if plan.classes.names is not None:
        lines = "".join(f"{name}\n" for name in plan.classes.names).encode()
        contents[f"{names.network}/labels.txt"] = lines
        if plan.is_classifier:
            contents[f"{names.postprocess}/labels.txt"] = lines
    return contents


def _find_copies(plan: Plan) -> dict[str, Path]:
    """Return the large files, by their path in the repository."""
    network = plan.network
    copies = {}
    if not network.external_files:
        copies[_place_in_network(plan, "model.onnx")] = network.file
    for location, name in network.weight_names().items():
        copies[_place_in_network(plan, name)] = network.external_files[location]
    if plan.options.self_contained:
        backends = find_our_backends()
        for model, backend in plan.our_backends.items():
            for file in sorted(path for path in backends[backend].iterdir() if path.is_file()):
                copies[f"{model}/{file.name}"] = file
    return copies


def _place_in_network(plan: Plan, name: str) -> str:
    """Return the path in the repository of a file that belongs to the network itself."""
    version = "1/" if plan.options.runtime != "tensorrt" else ""
    return f"{plan.names.network}/{version}{name}"


def render(plan: Plan, folder: str, *, picture_bytes: int = 0) -> dict[str, str]:
    """Return the texts by their path in the repository.

    `folder` is its name, for the README, and `picture_bytes` the length of the warm-up's picture.
    """
    jinja2 = import_extra("jinja2", "init", "writing a repository", RepositoryError)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # texts of protobuf and Markdown; `quoted` is for the former
    )
    environment.filters |= {
        "quoted": lambda text: text.replace("\\", "\\\\").replace('"', '\\"'),
        "comment": _make_printable,
        "cell": lambda text: re.sub(r"[\\|\[\]!]", r"\\\g<0>", _make_printable(text)).replace(
            "<", "&lt;"
        ),
        "code": _quote_code,
        "shell": shlex.quote,
        "declared": lambda dims: [-1 if dim is None else dim for dim in dims],
        "of_one_row": lambda dims: [max(dim, 1) for dim in dims],
    }
    context = {**_template_values(plan, folder), "picture_bytes": picture_bytes}
    names = plan.names
    templates = {
        f"{names.preprocess}/config.pbtxt": "preprocess.config.pbtxt.j2",
        f"{names.network}/config.pbtxt": "network.config.pbtxt.j2",
        f"{names.ensemble}/config.pbtxt": "ensemble.config.pbtxt.j2",
        "README.md": "README.md.j2",
    }
    if plan.has_postprocess:
        templates[f"{names.postprocess}/config.pbtxt"] = "postprocess.config.pbtxt.j2"
    texts = [(path, template, context) for path, template in templates.items()]
    if plan.options.preprocess == "dali":
        there = {**context, "encoded": _ENCODED_BYTES, "in_dali_backend": True}
        in_backend = {
            f"{names.preprocess}/1/dali.py": "dali.py.j2",
            f"{names.preprocess}/configs/dali.pbtxt": "preprocess_dali_backend.config.pbtxt.j2",
            f"{names.ensemble}/configs/dali.pbtxt": "ensemble.config.pbtxt.j2",
        }
        texts += [(path, template, there) for path, template in in_backend.items()]
    return {
        path: environment.get_template(template).render(given).lstrip("\n")
        for path, template, given in texts
    }


def join_labels(names: tuple[str, ...]) -> str:
    """Return class names as the parameter `labels` has them: comma-separated, else a JSON list."""
    plain = all("," not in name and name == name.strip() for name in names)
    if plain and not names[0].startswith("["):
        return ",".join(names)
    return json.dumps(names, ensure_ascii=False)


def _template_values(plan: Plan, folder: str) -> Mapping[str, Any]:
    image, labels = plan.image, plan.classes.names
    whole = image.batch is not None  # backends batch only what the file leaves free
    preprocess = preprocess_contract(decided_values(plan.preprocess))
    order = "channels first" if image.layout == "nchw" else "channels last"
    values = preprocess.parameters
    rows = (-1,) if plan.options.tile else ()
    parts = [
        replace(spec, name=part, dims=(*rows, *spec.dims)) for part, spec in plan.served.items()
    ]
    if plan.has_postprocess:
        contract = postprocess_contract(decided_values(plan.postprocess))
        sides = [x for x in (*contract.inputs, *contract.optional_inputs) if x.name in _SIDES]
        parts += [x for x in sides if x.name != "geometry" or not plan.is_classifier]
    # No step of a classifier takes it, and the DALI backend returns all outputs or none.
    pipeline = [x for x in preprocess.outputs if not (plan.is_classifier and x.name == "geometry")]
    results = {
        "classification": "classes",
        "semantic": "the class of each pixel",
        NO_HEAD: "the network's outputs",
    }
    return {
        "plan": plan,
        "names": plan.names,
        "options": plan.options,
        "runtime": plan.options.runtime,
        "results_text": results.get(plan.head.family, "detections"),
        "encoded": preprocess_contract({}).inputs[0],
        "has_whole_shapes": whole,
        "network_input": TensorSpec(
            image.name, image.data_type, (1, *image.dims) if whole else image.dims
        ),
        "preprocess_outputs": preprocess.outputs,
        "served_outputs": _declare_outputs(plan, whole=whole),
        "output_notes": {
            spec.name: f"for postprocess' {part}"
            for part, spec in plan.served.items()
            if plan.has_postprocess
        },
        "postprocess_inputs": parts,
        "result_notes": {**_NOTES, "images": f"{values['color']}, {order}, {values['fit']}"},
        "result_lines": {"class_probabilities": ['label_filename: "labels.txt"']}
        if plan.is_classifier and labels
        else {},
        "labels": join_labels(labels) if labels else None,
        "ignores_exif": values["exif"] == "ignore",
        "folder": f"./{folder}" if folder.startswith("-") else folder,
        "shapes": _write_engine_shapes(plan),
        "in_dali_backend": False,
        "pipeline_outputs": pipeline,
        "dali_arguments": {
            name: f"types.{value}" if name == "dtype" else repr(value)
            for name, value in dali_arguments(decided_values(plan.preprocess)).items()
        },
    }


def _declare_outputs(plan: Plan, *, whole: bool) -> list[TensorSpec]:
    """Return the network's outputs; Triton's ONNX Runtime backend wants -1 where the file is open.

    endcap's backend takes both, and its config is to be one for the other.
    """
    leaves_open = plan.options.runtime in ("endcap_onnx", "onnxruntime")
    declared = []
    for part, spec in plan.served.items():
        free = zip(spec.dims, plan.head.inputs[part].is_dynamic[1:], strict=True)
        dims = tuple(-1 if is_free else dim for dim, is_free in free) if leaves_open else spec.dims
        declared.append(replace(spec, dims=(1, *dims) if whole else dims))
    return declared


def _write_engine_shapes(plan: Plan) -> str:
    """Return the options of trtexec for a network whose input leaves any dimension open."""
    (declared,) = plan.network.inputs
    if None not in declared.dims:
        return ""
    name, dims = plan.image.name, "x".join(map(str, plan.image.dims))
    # trtexec takes a name with a colon in its own quotes.
    name = name if re.fullmatch(r"[A-Za-z0-9_./-]+", name) else f"'{name}'"
    sizes = {"min": 1, "opt": max(1, plan.network_batch // 2), "max": plan.network_batch}
    shapes = (f"--{kind}Shapes={name}:{count}x{dims}" for kind, count in sizes.items())
    return "".join(f" {shlex.quote(shape)}" for shape in shapes)


def _make_printable(text: str) -> str:
    """Return a text as a comment may hold it, whatever names are in it."""
    return "".join(c if c.isprintable() else " " for c in text)


def _quote_code(text: str) -> str:
    """Return a text between as many backticks as Markdown needs to show it unmodified."""
    line = _make_printable(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"
