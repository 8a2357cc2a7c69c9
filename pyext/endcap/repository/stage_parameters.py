"""Parameters of preprocess and postprocess, and the names of the classes, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from endcap.errors import InvalidArgumentError
from endcap.postprocess import Postprocessor
from endcap.predictions import class_name
from endcap.repository.errors import MissingOptionError, RepositoryError
from endcap.repository.head_evidence import Head
from endcap.repository.image_recipe import ImageRecipe, choose_recipe
from endcap.repository.input_normalization import NAMES, RAW_PIXELS, Normalization
from endcap.repository.metadata import NetworkMetadata
from endcap.repository.network_tensors import NetworkInput
from endcap.repository.onnx_file import OnnxFile
from endcap.repository.options import (
    AS_GIVEN,
    HEAD_PARAMETERS,
    NO_HEAD,
    Decision,
    InitOptions,
    decided_values,
    with_reason,
)
from endcap.triton.labels import read_labels
from endcap.triton.model_contract import postprocess_contract, preprocess_contract

# Written down although they are the defaults: what people tune first.
_TUNED = ("score_threshold", "iou_threshold", "max_detections", "top_k")
# Parameters that a network does not always tell, and of which no default fits most of a family.
_NEEDED = (
    (
        "activation",
        ("yolov5", "yolox", "yolov8", "classification"),
        "what its scores need to be from 0 to 1; give --set activation=none, sigmoid or softmax",
    ),
    (
        "box_format",
        ("yolov5", "yolov8"),
        "whether its boxes are corners or centres and sizes; give --set box_format=xyxy or cxcywh",
    ),
)
_WHOLE_INPUTS = ("num_detections", "classes", "class_map")


@dataclass(frozen=True)
class ClassNames:
    """Class names and their source; None where neither user nor exporter has named the classes."""

    names: tuple[str, ...] | None
    reason: str


class StageParameters(NamedTuple):
    """The parameters that have to be written, each with its reason."""

    preprocess: dict[str, Decision]  # `preset` first
    postprocess: dict[str, Decision]  # `head` first; empty without a head
    classes: ClassNames


def choose_parameters(
    network: OnnxFile, image: NetworkInput, head: Head, options: InitOptions
) -> StageParameters:
    """Return the parameters of both stages.

    Raises:
        MissingOptionError: Something that only the user knows is missing.
        RepositoryError: The network and its preset contradict each other.
        InvalidArgumentError: For parameters that a stage does not take, or not with this head, and
            for a labels file that does not fit the network; UnsupportedError too.
    """
    preprocess, postprocess, classes = {}, {}, ClassNames(None, "")
    missing: list[str] = []
    try:
        if head.family != NO_HEAD:
            classes = _choose_class_names(network.path, head, network.metadata, options)
            postprocess = _choose_postprocess(network.path, image, head, classes, options)
    except MissingOptionError as error:
        missing += error.reasons
    try:
        preprocess = _choose_preprocess(network, image, head, options)
    except MissingOptionError as error:
        missing += error.reasons
    if missing:
        raise MissingOptionError(network.path, *missing)
    return StageParameters(preprocess, postprocess, classes)


def _choose_preprocess(
    network: OnnxFile, image: NetworkInput, head: Head, options: InitOptions
) -> dict[str, Decision]:
    path, settings = network.path, options.settings
    recipe = choose_recipe(network, image, head, options)
    preset = preprocess_contract({"preset": recipe.preset.value}).parameters
    needed = _choose_needed(path, image, recipe, preset, settings) | recipe.parameters
    wanted = Normalization.from_parameters({**preset, **decided_values(needed)})
    needed |= _choose_normalization(path, image, wanted, recipe, options)
    given = {name: value for name, value in settings.items() if name in preset}
    needed |= with_reason(given, AS_GIVEN)
    written = {"size"}
    if image.normalization is not None:  # else `endcap validate` warns of a repeated preset
        written |= {"scale", *settings} & {*NAMES}
    chosen = {"preset": recipe.preset} | {
        name: decision
        for name, decision in needed.items()
        if name in written or decision.value != preset[name]
    }
    made = preprocess_contract(decided_values(chosen)).outputs[0]
    if options.tile is not None:
        chosen["tile"] = Decision(str(options.tile), AS_GIVEN)
        most = Decision(str(options.max_batch), "the network's largest batch")
        chosen.setdefault("max_rois", most)
    if (made.data_type, made.dims) != (image.data_type, image.dims):
        raise RepositoryError(
            f"preprocess would make {made}, and {path} takes {image.data_type} {list(image.dims)}; "
            "leave out what was given to --set about size, layout, dtype or color"
        )
    return chosen


def _choose_needed(
    path: Path,
    image: NetworkInput,
    recipe: ImageRecipe,
    preset: Mapping[str, str],
    settings: Mapping[str, str],
) -> dict[str, Decision]:
    """Return what the network's input needs."""
    (height, width), missing = image.size, []
    needed = {
        "size": Decision(f"{height},{width}", image.size_reason),
        "layout": Decision(image.layout, "the input's shape"),
        "dtype": Decision(image.dtype, f"the input is {image.data_type}"),
    }
    if image.channels == 1:
        needed["color"] = Decision("gray", "the input has one channel")
        missing += [
            f"{path} takes gray images, and {name} of the preset, {preset[name]}, is of three "
            f"channels; give --set {name}=..."
            for name in ("mean", "std")
            if len(set(preset[name].split(","))) > 1 and name not in settings
        ]
    if image.data_type == "INT8" and "scale" not in settings:
        missing.append(
            f"{path} takes INT8, and nothing tells how pixels become that; give --set scale=... "
            "and what else differs from the preset"
        )
    crops = settings.get("fit", preset["fit"]) == "center_crop"
    if crops and "resize_shorter" not in recipe.parameters:
        crop, whole = min(map(int, preset["size"].split(","))), int(preset["resize_shorter"])
        resized = round(min(height, width) * whole / crop)
        if max(height, width) > resized and "resize_shorter" not in settings:
            missing.append(
                f"the preset crops a square, and the network takes {height},{width}; give "
                "--set resize_shorter=..., or --set fit=stretch"
            )
        reason = f"the crop's share of the short side is the preset's, {crop}/{whole}"
        needed["resize_shorter"] = Decision(str(resized), reason)
    if missing:
        raise MissingOptionError(path, *missing)
    return needed


def _choose_normalization(
    path: Path,
    image: NetworkInput,
    wanted: Normalization,
    recipe: ImageRecipe,
    options: InitOptions,
) -> dict[str, Decision]:
    """Return what preprocess has to do of a normalisation whose last steps the network may do."""
    inside, is_integer, preset = image.normalization, image.data_type == "UINT8", recipe.preset
    is_certain = recipe.is_certain and (preset.is_given or not is_integer)
    if inside is not None and image.data_type != "INT8":
        found = inside.complement(wanted, is_integer=is_integer)
        if found is None and inside.has_mean and not is_certain:
            found = inside.complement(inside.whole, is_integer=is_integer)
        if found is not None:
            return with_reason(found.parameters(), f"the network itself computes {inside}")
        if (is_certain or not is_integer) and options.settings.keys().isdisjoint(NAMES):
            source = f"the preset {preset.value} ({preset.reason})"
            source = f"--preset {preset.value}" if preset.is_given else source
            pixels = _as_options(replace(RAW_PIXELS, scale=inside.whole.scale))
            choices = f"{pixels} for pixels from 0 to {255 if inside.takes_bytes else 1}"
            if not is_integer:
                choices += f", or {_as_options(wanted)} for {wanted} in front of it"
            raise RepositoryError(
                f"{path} begins by computing {inside} ({', '.join(inside.operators)}), and "
                f"{source} says {wanted}: they contradict each other; give another "
                f"--preset, or what the network gets: {choices}"
            )
    values = RAW_PIXELS.parameters() if is_integer else {}
    return with_reason(values, "a network that takes UINT8 normalises by itself")


def _as_options(normalization: Normalization) -> str:
    parameters = normalization.parameters()
    return " ".join(f"--set {name}={value}" for name, value in parameters.items())


def _choose_class_names(
    path: Path, head: Head, metadata: NetworkMetadata, options: InitOptions
) -> ClassNames:
    known, declared = head.num_classes or options.num_classes, metadata.names
    if options.labels is not None:
        names, problem = tuple(read_labels(options.labels)), ""
        unusable = [number for number, name in enumerate(names, 1) if not _is_usable(name)]
        if known not in (None, len(names)):
            problem = f"{len(names)} lines, and {path} has {known} classes"
        elif unusable:
            problem = f"no name, or one with control characters, in line {unusable[0]}"
        if problem:
            raise InvalidArgumentError(
                f"labels file {options.labels} has {problem}; give a file with one name a line, in "
                "the order of the class ids"
            )
        return ClassNames(names, f"the lines of {options.labels}")
    if declared is None:
        return ClassNames(None, "no names in the metadata; give them with --labels FILE")
    if known not in (None, len(declared)):
        reason = f"the metadata names {len(declared)}, and the head has {known}"
        return ClassNames(None, f"{reason}; --labels FILE names them")
    kept = tuple(
        class_name(n, each if _is_usable(each) else None) for n, each in enumerate(declared)
    )
    reason = metadata.names_source
    if kept != declared:
        reason += ", where some are empty or have control characters; --labels FILE names them all"
    return ClassNames(kept, reason)


def _is_usable(name: str) -> bool:
    """Return whether a name can be a line of a file: without its end, or what no encoding has."""
    return bool(name.strip()) and name.isprintable()


def _choose_postprocess(
    path: Path, image: NetworkInput, head: Head, classes: ClassNames, options: InitOptions
) -> dict[str, Decision]:
    family, settings = head.family, options.settings
    count, reason = len(classes.names or ()) or None, classes.reason
    if head.num_classes is not None:
        count, reason = head.num_classes, head.classes_reason
    elif options.num_classes is not None:
        count, reason = options.num_classes, AS_GIVEN
    missing = []
    if head.missing:
        missing.append(f"{path} ends in a head of the family {head}, and {head.missing}")
    if count is None and "--num-classes" not in head.missing:
        missing.append(
            f"the head of {path} does not tell how many classes it has; give --labels FILE or "
            "--num-classes (80 for a network trained on COCO, or 91 with COCO's own ids)"
        )
    for name, families, unknown in _NEEDED:
        is_known = head.missing or name in head.parameters or name in settings
        if family.startswith(families) and not is_known:
            missing.append(f"nothing in {path} tells {unknown}")
    if missing:
        raise MissingOptionError(path, *missing)
    if options.num_classes not in (None, count):
        raise InvalidArgumentError(
            f"--num-classes is {options.num_classes}, and the head of {path} has {count} "
            "classes; leave --num-classes out"
        )
    chosen = {"head": Decision(family, head.reason), "num_classes": Decision(str(count), reason)}
    defaults = postprocess_contract(decided_values(chosen))
    read = HEAD_PARAMETERS[family]
    if family == "classification" and settings.get("multi_label") != "true":
        read = tuple(name for name in read if not name.startswith("score_threshold"))
    given = {name: value for name, value in settings.items() if name in defaults.parameters}
    if unread := [name for name in given if name not in read]:
        raise InvalidArgumentError(
            f"{unread[0]} changes nothing for a head of the family {family}; leave it out (it has "
            f"{', '.join(read)})"
        )
    chosen |= head.parameters
    chosen |= {
        name: Decision(defaults.parameters[name], f"{defaults.meanings[name]}; the default")
        for name in _TUNED
        if name in read
    }
    if options.tile is not None and family not in ("classification", "semantic"):
        chosen["merge"] = Decision("nms", "the better of both for the sample network")
        if family.endswith("_obb"):
            chosen["merge_metric"] = Decision("iou", "how rotated boxes are compared")
    chosen |= with_reason(given, AS_GIVEN)
    values = decided_values(chosen)
    has_grid = family == "yolox" or values.get("anchors") == "grid"
    is_placed = "prototype_size" in values or family == "semantic"
    if has_grid or is_placed or values.get("box_unit") == "normalized":
        size = Decision(f"{image.size[0]},{image.size[1]}", image.size_reason)
        chosen.setdefault("input_size", size)
    # The core holds shapes and grids to the parameters.
    nothing = {
        part: np.zeros(
            [max(dim, 1) for dim in each.dims or (1,)],
            np.int32 if part in _WHOLE_INPUTS else np.float32,
        )
        for part, each in head.inputs.items()
    }
    parameters: Any = decided_values(chosen)
    geometry = np.array([1, 1, 0, 0, 1, 1, 1, 0], np.float32)
    Postprocessor(**parameters, threads=1)(nothing, geometry)
    return chosen
