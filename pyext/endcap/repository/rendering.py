"""Texts of a repository, made from a plan by the templates."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from endcap._pip_commands import import_extra
from endcap.repository.errors import RepositoryError
from endcap.repository.options import PreprocessBackend, Runtime, decided_values
from endcap.repository.plan import Plan
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
    "status": "0, or the failure class of a blanked image",
    "geometry": "how the image lies in the tensor: scale_x, scale_y, pad_x, pad_y and more",
}
_ENCODED_BYTES = TensorSpec("encoded", "UINT8", (-1,))  # of NVIDIA's DALI backend


def render(plan: Plan, folder: str, *, picture_bytes: int = 0) -> dict[str, str]:
    """Return the texts by their path in the repository.

    Args:
        plan: All decisions.
        folder: Its name, for the README.
        picture_bytes: The length of the warm-up's picture.
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
        "comment": _one_line,
        "cell": lambda text: re.sub(r"[\\|\[\]!]", r"\\\g<0>", _one_line(text)).replace(
            "<", "&lt;"
        ),
        "code": _code,
        "shell": shlex.quote,
        "of_one_row": lambda dims: [max(dim, 1) for dim in dims],
    }
    context = {**_context(plan, folder), "picture_bytes": picture_bytes}
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
    if plan.options.preprocess is PreprocessBackend.dali:
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


def joined_labels(names: tuple[str, ...]) -> str:
    """Return class names as the parameter `labels` has them: comma-separated, else a JSON list."""
    plain = all("," not in name and name == name.strip() for name in names)
    if plain and not names[0].startswith("["):
        return ",".join(names)
    return json.dumps(names, ensure_ascii=False)


def _context(plan: Plan, folder: str) -> Mapping[str, Any]:
    image, labels = plan.image, plan.classes.names
    whole = image.batch is not None  # backends batch only what the file leaves free
    preprocess = preprocess_contract(decided_values(plan.preprocess))
    order = "channels first" if image.layout == "nchw" else "channels last"
    values = preprocess.parameters
    parts = [
        TensorSpec(part, spec.data_type, spec.dims)
        for part, spec in zip(plan.head.inputs, plan.served, strict=True)
    ]
    if plan.has_postprocess:
        optional = postprocess_contract(decided_values(plan.postprocess)).optional_inputs
        parts += [x for x in optional if x.name != "geometry" or not plan.is_classifier]
    # No step of a classifier takes it, and the DALI backend returns all outputs or none.
    pipeline = [x for x in preprocess.outputs if not (plan.is_classifier and x.name == "geometry")]
    results = "classes" if plan.is_classifier else "detections"
    return {
        "plan": plan,
        "names": plan.names,
        "options": plan.options,
        "runtime": plan.options.runtime.value,
        "results_text": results if plan.has_postprocess else "the network's outputs",
        "encoded": preprocess_contract({}).inputs[0],
        "has_whole_shapes": whole,
        "network_input": TensorSpec(
            image.name, image.data_type, (1, *image.dims) if whole else image.dims
        ),
        "preprocess_outputs": preprocess.outputs,
        "served_outputs": _declared(plan, whole=whole),
        "output_notes": {
            output.name: f"for postprocess' {part}"
            for part, output in plan.head.inputs.items()
            if plan.has_postprocess
        },
        "postprocess_inputs": parts,
        "result_notes": {**_NOTES, "images": f"{values['color']}, {order}, {values['fit']}"},
        "result_lines": {"class_probabilities": ['label_filename: "labels.txt"']}
        if plan.is_classifier and labels
        else {},
        "labels": joined_labels(labels) if labels else None,
        "ignores_exif": values["exif"] == "ignore",
        "folder": f"./{folder}" if folder.startswith("-") else folder,
        "shapes": _engine_shapes(plan),
        "in_dali_backend": False,
        "pipeline_outputs": pipeline,
        "dali_arguments": {
            name: f"types.{value}" if name == "dtype" else repr(value)
            for name, value in dali_arguments(decided_values(plan.preprocess)).items()
        },
    }


def _declared(plan: Plan, *, whole: bool) -> list[TensorSpec]:
    """Return the network's outputs; Triton's ONNX Runtime backend wants -1 where the file is open.

    endcap's backend takes both, and its config is to be one for the other.
    """
    leaves_open = plan.options.runtime in (Runtime.endcap_onnx, Runtime.onnxruntime)
    declared = []
    for spec, output in zip(plan.served, plan.head.inputs.values(), strict=True):
        free = zip(spec.dims, output.is_dynamic[1:], strict=True)
        dims = tuple(-1 if is_free else dim for dim, is_free in free) if leaves_open else spec.dims
        declared.append(replace(spec, dims=(1, *dims) if whole else dims))
    return declared


def _engine_shapes(plan: Plan) -> str:
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


def _one_line(text: str) -> str:
    """Return a text as a comment may hold it, whatever names are in it."""
    return "".join(c if c.isprintable() else " " for c in text)


def _code(text: str) -> str:
    """Return a text between as many backticks as Markdown needs to show it unmodified."""
    line = _one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"
