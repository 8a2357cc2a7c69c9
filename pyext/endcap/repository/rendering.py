"""Texts of a repository, made from a plan by the templates."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from endcap._pip_commands import install_command
from endcap.repository.errors import RepositoryError
from endcap.repository.options import (
    Decision,
    PostprocessBackend,
    PreprocessBackend,
    Runtime,
    decided_values,
)
from endcap.repository.plan import Plan
from endcap.triton.model_contract import postprocess_contract, preprocess_contract
from endcap.triton.stage_settings import Argument, dali_arguments
from endcap.triton.tensor_spec import TensorSpec

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_RUNTIMES = {
    Runtime.endcap_onnx: "backend `endcap_onnx`: ONNX Runtime",
    Runtime.onnxruntime: "backend `onnxruntime`",
    Runtime.tensorrt: "backend `tensorrt`",
    Runtime.openvino: "backend `openvino`",
}
_PREPROCESS_TEXTS = {
    PreprocessBackend.cpp: "backend `endcap_preprocess`",
    PreprocessBackend.python: "Python backend with endcap",
    PreprocessBackend.dali: "Python backend with a DALI pipeline",
}
_POSTPROCESS_TEXTS = {
    PostprocessBackend.cpp: "backend `endcap_postprocess`",
    PostprocessBackend.python: "Python backend with endcap",
}
_RESULT_NOTES = {
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
_ROTATED = {"detection_boxes": "x1, y1, x2, y2 in pixels of the source image, before the rotation"}
_FAMILY_NOTES = {"yolov8_obb": _ROTATED, "end2end_obb": _ROTATED}
# Recognised values that are the defaults: a reader looks for what was decided.
_OMITTED = (("box_unit", "pixel"), ("activation", "none"))
_BOX_FORMATS = dict.fromkeys(("end2end", "end2end_seg", "end2end_pose"), "xyxy")  # others: cxcywh
# Their parameters say what they are.
_NEVER_OMITTED = ("classification", "rtdetr", "rtdetr_seg", "ssd", "detections")
_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_./-]+")
_ENCODED_BYTES = TensorSpec("encoded", "UINT8", (-1,))  # of NVIDIA's DALI backend


def render(plan: Plan, folder: str, *, picture_bytes: int = 0) -> dict[str, str]:
    """Return the texts by their path in the repository.

    Args:
        plan: All decisions.
        folder: Its name, for the README.
        picture_bytes: The length of the warm-up's picture.

    Raises:
        RepositoryError: Jinja2 is not installed.
    """
    jinja2 = _import_jinja2()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # texts of protobuf and Markdown; `quoted` is for the former
    )
    environment.filters |= {
        "quoted": _quoted,
        "comment": _one_line,
        "cell": _cell,
        "code": _code,
        "shell": shell_word,
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


def _import_jinja2() -> Any:
    try:
        return importlib.import_module("jinja2")
    except ImportError as error:
        raise RepositoryError(
            f"writing a repository takes jinja2, which cannot be imported ({error}); run "
            f"`{install_command('init')}`"
        ) from error


def joined_labels(names: tuple[str, ...]) -> str:
    """Return class names as the parameter `labels` has them: comma-separated, else a JSON list."""
    plain = all("," not in name and name == name.strip() for name in names)
    if plain and not names[0].startswith("["):
        return ",".join(names)
    return json.dumps(names, ensure_ascii=False)


def _context(plan: Plan, folder: str) -> Mapping[str, Any]:
    whole = plan.image.batch is not None  # backends batch only what the file leaves free
    dims = (1, *plan.image.dims) if whole else plan.image.dims
    network_input = TensorSpec(plan.image.name, plan.image.data_type, dims)
    results_text = "classes" if plan.is_classifier else "detections"
    if not plan.has_postprocess:
        results_text = "the network's outputs"
    preprocess = preprocess_contract(decided_values(plan.preprocess))
    order = "channels first" if plan.image.layout == "nchw" else "channels last"
    values = preprocess.parameters
    labels = plan.classes.names
    given_labels = plan.is_classifier and labels is not None
    return {
        "options": plan.options,
        "stage_backends": (
            _PREPROCESS_TEXTS[plan.options.preprocess],
            _POSTPROCESS_TEXTS[plan.options.postprocess],
        ),
        "python_stages": _python_stages(plan),
        "our_backends": list(plan.our_backends),
        "runtime": plan.runtime.value,
        "runtime_text": _RUNTIMES[plan.runtime],
        "names": plan.names,
        "head": plan.head,
        "is_classifier": plan.is_classifier,
        "has_postprocess": plan.has_postprocess,
        "results_text": results_text,
        "encoded": preprocess_contract({}).inputs[0],
        "has_whole_shapes": whole,
        "network_input": network_input,
        "network_batch": plan.network_batch,
        "is_for_one_image": plan.is_for_one_image,
        "batch_text": plan.batch_text,
        "batch_reason": plan.batch_reason,
        "batch_advice": plan.batch_advice,
        "image_note": f"{values['color']}, {order}, {values['fit']}",
        "preprocess_outputs": preprocess.outputs,
        "preprocess": plan.preprocess,
        "served_outputs": _declared(plan, whole=whole),
        "output_notes": {
            output.name: f"for postprocess' {part}"
            for part, output in plan.head.inputs.items()
            if plan.has_postprocess
        },
        "postprocess_inputs": (
            *(
                TensorSpec(part, spec.data_type, spec.dims)
                for part, spec in zip(plan.head.inputs, plan.served, strict=True)
            ),
            *_optional_inputs(plan),
        ),
        "postprocess": _written_parameters(plan),
        "results": plan.results,
        "result_notes": _RESULT_NOTES | _FAMILY_NOTES.get(plan.head.family, {}),
        "result_lines": {"class_probabilities": ['label_filename: "labels.txt"']}
        if given_labels
        else {},
        "labels_file": given_labels,
        "labels": joined_labels(labels) if labels else None,
        "ignores_exif": values["exif"] == "ignore",
        "summary": list(plan.summary()),
        "model_file": plan.network.path.name,
        "folder": f"./{folder}" if folder.startswith("-") else folder,
        "shapes": _engine_shapes(plan),
        "network_size": plan.image.size,
        "in_dali_backend": False,
        **_dali_context(plan, preprocess.outputs),
    }


def _python_stages(plan: Plan) -> str:
    """Return the stages that run in Python, as the subject of a sentence."""
    chosen: dict[str, PostprocessBackend | PreprocessBackend] = {
        plan.names.preprocess: plan.options.preprocess,
        plan.names.postprocess: plan.options.postprocess,
    }
    names = [f"`{name}`" for name, backend in chosen.items() if name and backend.value != "cpp"]
    return " and ".join(names) + (" run" if len(names) == 2 else " runs")


def _declared(plan: Plan, *, whole: bool) -> list[TensorSpec]:
    """Return the network's outputs; Triton's ONNX Runtime backend wants -1 where the file is open.

    endcap's backend takes both, and its config is to be one for the other.
    """
    leaves_open = plan.runtime in (Runtime.endcap_onnx, Runtime.onnxruntime)
    declared = []
    for spec, output in zip(plan.served, plan.head.inputs.values(), strict=True):
        free = zip(spec.dims, output.is_dynamic[1:], strict=True)
        dims = tuple(-1 if is_free else dim for dim, is_free in free) if leaves_open else spec.dims
        declared.append(replace(spec, dims=(1, *dims) if whole else dims))
    return declared


def _optional_inputs(plan: Plan) -> list[TensorSpec]:
    """Return the inputs of postprocess that its ensemble maps in addition to the head."""
    if not plan.has_postprocess:
        return []
    optional = postprocess_contract(decided_values(plan.postprocess)).optional_inputs
    return [spec for spec in optional if spec.name != "geometry" or not plan.is_classifier]


def _written_parameters(plan: Plan) -> dict[str, Decision]:
    if plan.head.family in _NEVER_OMITTED:
        return plan.postprocess
    omitted = {*_OMITTED, ("box_format", _BOX_FORMATS.get(plan.head.family, "cxcywh"))}
    return {
        name: decision
        for name, decision in plan.postprocess.items()
        if decision.is_given or (name, decision.value) not in omitted
    }


def _engine_shapes(plan: Plan) -> str:
    """Return the options of trtexec for a network whose input leaves any dimension open."""
    (declared,) = plan.network.inputs
    if None not in declared.dims:
        return ""
    dims = "x".join(map(str, plan.image.dims))
    # trtexec takes a name with a colon in its own quotes.
    name = plan.image.name
    name = name if _NEEDS_NO_QUOTES.fullmatch(name) else f"'{name}'"
    sizes = {"min": 1, "opt": max(1, plan.network_batch // 2), "max": plan.network_batch}
    shapes = {kind: f"{name}:{count}x{dims}" for kind, count in sizes.items()}
    return "".join(f" {shell_word(f'--{kind}Shapes={shape}')}" for kind, shape in shapes.items())


def _one_line(text: str) -> str:
    """Return a text as a comment may hold it, whatever names are in it."""
    return "".join(c if c.isprintable() else " " for c in text)


def _cell(text: str) -> str:
    """Return a text as a cell of a Markdown table may hold it, without links or pictures."""
    line = re.sub(r"[\\|\[\]!]", r"\\\g<0>", _one_line(text))
    return line.replace("<", "&lt;")


def _code(text: str) -> str:
    """Return a text between as many backticks as Markdown needs to show it unmodified."""
    line = _one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def shell_word(text: str) -> str:
    """Return a text as one printable word of a line for bash, zsh and ksh."""
    if text.isprintable():
        return shlex.quote(text)
    escapes = {"\\": "\\\\", "'": "\\'"}
    return "$'" + "".join(escapes.get(c, c if c.isprintable() else _octal(c)) for c in text) + "'"


def _quoted(text: str) -> str:
    """Return a text as it stands between the quotes of protobuf's text format."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return "".join(escapes.get(c, c if c.isprintable() else _octal(c)) for c in text)


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _dali_context(plan: Plan, outputs: Sequence[TensorSpec]) -> dict[str, Any]:
    """Return the templates' values for a DALI pipeline, if there is one."""
    if plan.options.preprocess is not PreprocessBackend.dali:
        return {}
    # No step of a classifier takes it, and the backend returns all outputs or none.
    outputs = [each for each in outputs if not (plan.is_classifier and each.name == "geometry")]
    *texts, last = (f"{spec.name} [{', '.join(map(str, spec.dims))}]" for spec in outputs)
    return {
        "pipeline_outputs": outputs,
        "pipeline_text": f"{', '.join(texts)} and {last}",
        "dali_arguments": {
            name: _dali_literal(name, value)
            for name, value in dali_arguments(decided_values(plan.preprocess)).items()
        },
    }


def _dali_literal(name: str, value: Argument) -> str:
    if name == "dtype":
        return f"types.{value}"
    return f'"{value}"' if isinstance(value, str) else repr(value)  # names need no escapes
