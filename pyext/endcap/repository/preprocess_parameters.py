"""Parameters of preprocess: how images have to be prepared for a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from endcap.preprocess import presets
from endcap.repository.companion_config import CompanionConfig, ImageRecipe
from endcap.repository.errors import MissingOptionError, RepositoryError
from endcap.repository.head_evidence import Head
from endcap.repository.head_families import NO_HEAD
from endcap.repository.input_normalization import NAMES, RAW_PIXELS, Normalization, describe
from endcap.repository.network_tensors import NetworkInput
from endcap.repository.onnx_file import RTDETR_DECODER, ExporterMetadata, OnnxFile
from endcap.repository.options import AS_GIVEN, Decision, InitOptions, decided_values
from endcap.triton.model_contract import preprocess_contract

# The presets to choose from, by head family.
_CANDIDATES = {
    "classification": "torchvision for any of torchvision's (inception is TensorFlow's, vgg "
    "Caffe's)",
    "rtdetr": "rtdetr, or rfdetr for RF-DETR",
    "rtdetr_seg": "rfdetr",
    "ssd": "ssd",
    NO_HEAD: "ultralytics (pixels from 0 to 1) or torchvision (ImageNet's mean and deviation)",
}
_DETECTOR_PRESETS = "ultralytics, rtdetr, rfdetr or ssd"
_DETR_PRESET = "torchvision with --set fit=stretch"


def choose_preprocess_parameters(
    network: OnnxFile,
    image: NetworkInput,
    head: Head,
    companion: CompanionConfig,
    options: InitOptions,
) -> dict[str, Decision]:
    """Return the parameters that have to be written, `preset` first, each with its reason.

    Args:
        network: The network, its metadata completed by the files next to it.
        image: Its input.
        head: Its head.
        companion: The files next to it.
        options: What the user gives.

    Raises:
        RepositoryError: Nothing tells how the network's images were prepared, and
            InvalidArgumentError or UnsupportedError for parameters that preprocess does not take.
    """
    path, metadata = network.path, network.metadata
    inside = image.normalization
    is_detector = head.family not in ("classification", NO_HEAD) or metadata.task == "detect"
    beside = companion.recipe(image.size, is_detector=is_detector)
    recipe = _recipe(network, head, inside, beside, options)
    chosen = {"preset": recipe.preset}
    preset = preprocess_contract({"preset": chosen["preset"].value}).parameters
    needed = dict(_needed(path, image, head, metadata, options, preset))
    needed |= recipe.parameters
    wanted = {**preset, **decided_values(needed)}
    needed |= _normalization(
        path,
        image,
        {name: wanted[name] for name in NAMES},
        recipe,
        options,
        is_certain=recipe.preset.is_given or (recipe is beside and image.data_type != "UINT8"),
    )
    needed |= {
        name: Decision(value, AS_GIVEN)
        for name, value in options.settings.items()
        if name in preset
    }
    written = {"size"}
    if inside is not None:  # else `endcap validate` takes the preset's for repeated by mistake
        written |= {"scale", *options.settings} & {*NAMES}
    chosen |= {
        name: decision
        for name, decision in needed.items()
        if name in written or decision.value != preset[name]
    }
    _check(path, image, decided_values(chosen))
    return chosen


def _recipe(
    network: OnnxFile,
    head: Head,
    inside: Normalization | None,
    beside: ImageRecipe | None,
    options: InitOptions,
) -> ImageRecipe:
    """Return how images are prepared.

    Raises:
        RepositoryError: Nothing tells it.
    """
    metadata, path = network.metadata, network.path
    if options.preset is not None:
        return ImageRecipe(Decision(options.preset, AS_GIVEN))
    if options.preprocess_from is not None and beside is not None:
        if beside.missing:
            raise RepositoryError(
                f"preprocess cannot follow {options.preprocess_from}: {beside.missing}; give a "
                "--preset, and what differs with --set"
            )
        return beside
    if head.family == "classification":
        if metadata.is_ultralytics and metadata.task == "classify":
            reason = "as Ultralytics' classifiers, by the exporter's metadata"
            return ImageRecipe(Decision("torchvision", reason))
    elif metadata.head == RTDETR_DECODER:
        return ImageRecipe(Decision("rtdetr", "by the exporter's metadata"))
    elif metadata.is_ultralytics:
        return ImageRecipe(Decision("ultralytics", "by the exporter's metadata"))
    has_recipe = head.preset not in (None, "rtdetr")  # of YOLO's grids and RF-DETR
    if beside is not None and not beside.missing and not metadata.is_ultralytics and not has_recipe:
        return beside
    if (
        head.family == "detections"
        and inside is not None
        and inside.has_mean
        and not inside.takes_bytes
    ):
        return _recipe_of_torchvision(network, inside)
    if head.family == "yolox":
        return _recipe_of_yolox()
    if head.preset is not None:
        reason = f"what networks with such a {head.family} head are trained by"
        return ImageRecipe(Decision(head.preset, reason), head.recipe)
    likely = _CANDIDATES.get(head.family, _DETECTOR_PRESETS)
    if head.family in ("rtdetr", "rtdetr_seg") and "multi_label" in head.parameters:
        likely = _DETR_PRESET
    elif head.family == "rtdetr" and "background" not in head.parameters:
        likely += f", or {_DETR_PRESET} for DETR"
    why = f"nothing in {path} tells" if beside is None else f"{beside.missing}, so nothing tells"
    raise MissingOptionError(
        path,
        f"{why} how its images have to be prepared; name the recipe of its "
        f"training with --preset, for a network like this {likely} (of "
        f"{', '.join(presets())}), and what differs with --set",
    )


def _recipe_of_torchvision(network: OnnxFile, inside: Normalization) -> ImageRecipe:
    """Return the recipe of a detector that resizes and normalises by itself."""
    reason = "the network normalises and resizes by itself, as torchvision's detectors do"
    operators = {node.op_type for node in network.model.graph.node}
    parameters = {name: Decision(value, reason) for name, value in inside.whole.items()}
    if "Softmax" not in operators or "RoiAlign" in operators:
        why = (
            "torchvision's detectors, but for SSD, keep the aspect ratio; exported with a shorter "
            "side of 800 pixels they work at their own scale"
        )
        parameters["fit"] = Decision("letterbox", why)
        parameters["pad_align"] = Decision("top_left", "as torchvision pads")
    return ImageRecipe(Decision("ssd", reason), parameters)


def _recipe_of_yolox() -> ImageRecipe:
    reason = "as YOLOX's own code prepares images, since its version 0.2"
    values = {"color": "bgr", "scale": "1", "pad_align": "top_left"}
    parameters = {name: Decision(value, reason) for name, value in values.items()}
    return ImageRecipe(Decision("ultralytics", reason), parameters)


def _normalization(
    path: Path,
    image: NetworkInput,
    wanted: Mapping[str, str],
    recipe: ImageRecipe,
    options: InitOptions,
    *,
    is_certain: bool,
) -> dict[str, Decision]:
    """Return what preprocess has to do of a normalisation whose last steps the network may do.

    Args:
        path: The network's file, for messages.
        image: The network's input.
        wanted: The parameters of the whole normalisation.
        recipe: Where they are from.
        options: What the user gives, which wins.
        is_certain: Whether the user or a file names the recipe, and not the head.

    Raises:
        RepositoryError: The network does something else than the last steps.
    """
    inside, is_integer = image.normalization, image.data_type == "UINT8"
    if inside is not None and image.data_type != "INT8":
        found = inside.complement(wanted, is_integer=is_integer)
        if found is None and inside.has_mean and not is_certain:
            found = inside.complement(inside.whole, is_integer=is_integer)
        if found is not None:
            reason = f"the network itself computes {inside}"
            return {name: Decision(value, reason) for name, value in found.items()}
        if (is_certain or not is_integer) and options.settings.keys().isdisjoint(NAMES):
            raise _contradiction(path, image, inside, wanted, recipe)
    reason = "a network that takes UINT8 normalises by itself"
    return {name: Decision(value, reason) for name, value in RAW_PIXELS.items() if is_integer}


def _contradiction(
    path: Path,
    image: NetworkInput,
    inside: Normalization,
    wanted: Mapping[str, str],
    recipe: ImageRecipe,
) -> RepositoryError:
    preset = recipe.preset
    source = f"--preset {preset.value}"
    if not preset.is_given:
        source = f"the preset {preset.value} ({preset.reason})"
    pixels = {**RAW_PIXELS, "scale": inside.whole["scale"]}
    choices = [f"{_as_options(pixels)} for pixels from 0 to {255 if inside.takes_bytes else 1}"]
    if image.data_type != "UINT8":
        choices.append(f"{_as_options(wanted)} for {describe(wanted)} in front of the network's")
    return RepositoryError(
        f"{path} begins by computing {inside} ({', '.join(inside.operators)}), and {source} says "
        f"{describe(wanted)}: they contradict each other; give another --preset, or what the "
        f"network gets: {', or '.join(choices)}"
    )


def _as_options(parameters: Mapping[str, str]) -> str:
    return " ".join(f"--set {name}={value}" for name, value in parameters.items())


def _needed(
    path: Path,
    image: NetworkInput,
    head: Head,
    metadata: ExporterMetadata,
    options: InitOptions,
    preset: Mapping[str, str],
) -> Iterator[tuple[str, Decision]]:
    height, width = image.size
    yield "size", Decision(f"{height},{width}", image.size_reason)
    yield "layout", Decision(image.layout, "the input's shape")
    yield "dtype", Decision(image.dtype, f"the input is {image.data_type}")
    if image.channels == 1:
        yield "color", Decision("gray", "the input has one channel")
        for name in ("mean", "std"):
            if len(set(preset[name].split(","))) > 1 and name not in options.settings:
                raise MissingOptionError(
                    path,
                    f"{path} takes gray images, and {name} of the preset, {preset[name]}, is of "
                    f"three channels; give --set {name}=...",
                )
    is_ultralytics = metadata.is_ultralytics and options.preset is None
    is_cropped = options.settings.get("fit", preset["fit"]) == "center_crop"
    if is_cropped and not (metadata.task == "classify" and is_ultralytics):
        yield "resize_shorter", _resize_shorter(image, preset, options)
    if head.family == "classification" and metadata.task == "classify" and is_ultralytics:
        # torchvision's transform without its crop and statistics, on what OpenCV reads.
        reason = "as Ultralytics' classifiers are trained"
        yield "resize_shorter", Decision(str(min(height, width)), reason)
        yield "mean", Decision("0,0,0", reason)
        yield "std", Decision("1,1,1", reason)
        yield "exif", Decision("apply", reason)
        if height != width:
            yield "fit", Decision("stretch", reason)
    if metadata.head == RTDETR_DECODER and is_ultralytics:
        reason = "Ultralytics' RT-DETR is trained on what OpenCV reads and stretches"
        yield "antialias", Decision("false", reason)
        yield "exif", Decision("apply", reason)
    if image.data_type == "INT8" and "scale" not in options.settings:
        raise MissingOptionError(
            path,
            f"{path} takes INT8, and nothing tells how pixels become that; give --set scale=... "
            "and what else differs from the preset",
        )


def _resize_shorter(
    image: NetworkInput, preset: Mapping[str, str], options: InitOptions
) -> Decision:
    """Return the preset's own share of the short side, at the network's size."""
    crop = min(int(side) for side in preset["size"].split(","))
    whole = int(preset["resize_shorter"])
    resized = round(min(image.size) * whole / crop)
    if max(image.size) > resized and "resize_shorter" not in options.settings:
        raise RepositoryError(
            f"the preset crops a square, and the network takes {image.size[0]},{image.size[1]}; "
            "give --set resize_shorter=..., or --set fit=stretch"
        )
    return Decision(
        str(resized), f"the crop's share of the short side is the preset's, {crop}/{whole}"
    )


def _check(path: Path, image: NetworkInput, parameters: Mapping[str, str]) -> None:
    """Raise what the core says of the parameters, and RepositoryError for another tensor."""
    made = preprocess_contract(parameters).outputs[0]
    if (made.data_type, made.dims) != (image.data_type, image.dims):
        raise RepositoryError(
            f"preprocess would make {made}, and {path} takes {image.data_type} {list(image.dims)}; "
            "leave out what was given to --set about size, layout, dtype or color"
        )
