"""Comparison of endcap's tensors with a training pipeline's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.errors import EndcapError
from endcap.evaluation.errors import EvaluationError
from endcap.preprocess import Preprocessor
from endcap.repository.input_normalization import Normalization as InputNormalization
from endcap.tools.parity.causes import Cause, find_causes
from endcap.tools.parity.imitation import FASTER_DECODER, Imitator
from endcap.tools.parity.normalization import Normalization
from endcap.tools.parity.pipelines import TrainingPipeline
from endcap.tools.parity.recipe import Recipe, check_color, recipe_of
from endcap.tools.parity.samples import choose_samples
from endcap.tools.parity.search import SMALL_STEPS, Explainer

# Starts to show the progress of so many steps of something, and yields what to call after each.
ShowProgress = Callable[[str, "int | None"], AbstractContextManager[Callable[[], None]]]

# A difference that counts as none, in 8-bit steps: float32 rounding behind the normalisation.
_EQUAL_STEPS = 0.01


@dataclass(frozen=True)
class Difference:
    """Differences of two tensors, or of all images' tensors, in 8-bit steps of the pixels.

    Attributes:
        mean: Over all numbers.
        largest: The largest.
        equal: Share of the numbers that differ by less than a hundredth of a step.
    """

    mean: float
    largest: float
    equal: float

    def to_json(self) -> dict[str, float]:
        """Return it as an object of JSON."""
        return {"mean_steps": self.mean, "max_steps": self.largest, "equal_share": self.equal}


@dataclass(frozen=True)
class ImageParity:
    """The two tensors of one image, float32 [H, W, C], and their difference.

    The difference is None where their sizes or channels are not the same.
    """

    path: Path
    training: NDArray[np.float32]
    endcap: NDArray[np.float32]
    difference: Difference | None


@dataclass(frozen=True, kw_only=True)
class TensorsReport:
    """What was found.

    Attributes:
        pipeline: The training pipeline's name.
        parameters: Endcap's parameters of preprocess, all of them.
        images: Those that both could read.
        failures: By path why an image could not be compared.
        before: Of all images; None where the tensors' shapes differ.
        causes: The largest first.
        settings: The parameters to set, those of all causes.
        after: Of all images, with these parameters set; None where nothing is to set.
        unexplained_steps: The mean difference that remains when everything that was found is
            imitated, what endcap cannot do included.
        recipe: What explains the training pipeline's tensors.
        notes: What the images do not show, and what could not be tried.
    """

    pipeline: str
    parameters: dict[str, str]
    images: tuple[ImageParity, ...]
    failures: dict[str, str]
    before: Difference | None
    causes: tuple[Cause, ...]
    settings: dict[str, str]
    after: Difference | None
    unexplained_steps: float
    recipe: Recipe
    notes: tuple[str, ...]

    def geometries(self) -> list[NDArray[np.float32]]:
        """Return how each image lies in the training pipeline's tensor, float32 [8]."""
        return [Imitator(each.path).geometry(self.recipe) for each in self.images]

    @property
    def ok(self) -> bool:
        """Whether nothing differs: no cause, no difference without a cause, no failed image."""
        is_same = self.before is not None and self.before.mean < SMALL_STEPS
        return is_same and not self.causes and not self.failures

    @property
    def is_mended(self) -> bool:
        """Whether the tensors come much closer to each other with `settings`."""
        if self.after is None:
            return False
        return self.before is None or self.after.mean < self.before.mean / 2

    def to_json(self) -> dict[str, Any]:
        """Return it as an object of JSON, without the tensors."""
        return {
            "training": self.pipeline,
            "parameters": self.parameters,
            "images": [
                {
                    "image": str(each.path),
                    "difference": each.difference.to_json() if each.difference else None,
                }
                for each in self.images
            ],
            "failures": self.failures,
            "before": self.before.to_json() if self.before else None,
            "causes": [each.to_json() for each in self.causes],
            "settings": self.settings,
            "after": self.after.to_json() if self.after else None,
            "unexplained_mean_steps": self.unexplained_steps,
            "notes": list(self.notes),
        }


def compare_tensors(
    images: Sequence[Path],
    pipeline: TrainingPipeline,
    parameters: Mapping[str, str],
    *,
    progress: ShowProgress,
    has_network: bool = False,
    inside: InputNormalization | None = None,
) -> TensorsReport:
    """Compare the tensors of images, and find what makes them differ.

    Args:
        images: Files.
        pipeline: The training's.
        parameters: Endcap's parameters of preprocess, `preset` among them, or none.
        progress: Shows the progress of a step.
        has_network: A network decides the layout and the type of the tensor, so that these are no
            causes.
        inside: What the network does to each channel first.

    Raises:
        EvaluationError: No image can be compared.
        InvalidArgumentError: Parameters or tensors that cannot be.
    """
    preprocessor = make_preprocessor(parameters)
    own = preprocessor.parameters
    compared: list[ImageParity] = []
    failures: dict[str, str] = {}
    forms: set[_Form] = set()
    with progress("images", len(images)) as advance:
        for path in images:
            try:
                tensor = pipeline(path)
                ours = _channels_last(preprocessor(path).images[0], own["layout"] == "nhwc")
            except (EndcapError, OSError) as error:
                failures[str(path)] = str(error)
            else:
                form = _Form("nchw" if tensor.shape[0] in (1, 3) else "nhwc", str(tensor.dtype))
                forms.add(form)
                theirs = _channels_last(tensor, form.layout == "nhwc")
                found = difference(theirs, ours, normalization_of(own, ours.shape[2]))
                compared.append(ImageParity(path, theirs, ours, found))
            advance()
    if not compared:
        first = next(iter(failures.items()), ("", "no image was given"))
        raise EvaluationError(f"no image can be compared; {first[0]}: {first[1]}")
    size, channels = _common_shape(compared, pipeline)
    is_behind = inside is not None and not _is_taken_by(inside, compared)
    if inside is not None and is_behind:
        compared = [_in_front_of(inside, each, own) for each in compared]
    samples, notes = choose_samples([(each.path, each.training) for each in compared], own)
    if is_behind:
        notes.append(
            f"the network itself begins by computing {inside}; the training's tensors are those "
            "behind that, and were compared in front of it"
        )
    recipe = recipe_of(own, size)
    recipe = replace(recipe, color=check_color(own["color"], channels))
    normalization = normalization_of(own, channels)
    with progress("recipes tried", None) as advance:
        explainer = Explainer(samples, recipe, normalization, on_step=advance)
        found_recipe = explainer.explain()
        causes = find_causes(found_recipe, recipe, normalization, int(own["pad_value"]), samples)
    form = _common_form(forms, pipeline)
    causes = [*_observed(own, form, size, channels, has_network=has_network), *causes]
    if explainer.lacks_decoder:
        notes.append(
            "the faster and less exact ways to decode a JPEG were not tried; for these run `pip "
            f"install {FASTER_DECODER}`"
        )
    settings = {name: value for each in causes for name, value in each.parameters.items()}
    return TensorsReport(
        pipeline=pipeline.name,
        parameters=own,
        images=tuple(compared),
        failures=failures,
        before=_overall([each.difference for each in compared]),
        causes=tuple(causes),
        settings=settings,
        after=_with_settings(compared, {**parameters, **settings}) if settings else None,
        unexplained_steps=min(found_recipe.steps, found_recipe.inside_steps)
        if causes
        else found_recipe.steps,
        recipe=found_recipe.recipe,
        notes=tuple(notes),
    )


def _is_taken_by(inside: InputNormalization, compared: Sequence[ImageParity]) -> bool:
    """Return whether the training's tensors are in the range in which a network normalises."""
    low = min(float(each.training.min()) for each in compared)
    high = max(float(each.training.max()) for each in compared)
    return low >= 0 and (1.0 < high <= 255.0 if inside.takes_bytes else high <= 1.0)


def _in_front_of(
    inside: InputNormalization, image: ImageParity, own: Mapping[str, str]
) -> ImageParity:
    """Return the tensors of an image as the network takes them, given the training's behind."""
    training = inside.undo(image.training)
    found = difference(training, image.endcap, normalization_of(own, image.endcap.shape[2]))
    return replace(image, training=training, difference=found)


def make_preprocessor(parameters: Mapping[str, str]) -> Preprocessor:
    """Return a preprocessor of parameters that are texts, `preset` among them or not."""
    fields: dict[str, Any] = dict(parameters)
    return Preprocessor(fields.pop("preset", "ultralytics"), **fields)


def difference(
    training: NDArray[np.float32], ours: NDArray[np.float32], normalization: Normalization
) -> Difference | None:
    """Return the difference of two tensors [H, W, C]; None for two shapes."""
    if training.shape != ours.shape:
        return None
    steps = np.abs(training - ours) / np.abs(normalization.slopes).astype(np.float32)
    return Difference(
        float(steps.mean(dtype=np.float64)),
        float(steps.max()),
        float(np.mean(steps < _EQUAL_STEPS)),
    )


def _with_settings(
    compared: Sequence[ImageParity], parameters: Mapping[str, str]
) -> Difference | None:
    preprocessor = make_preprocessor(parameters)
    values = preprocessor.parameters
    return _overall(
        [
            difference(
                each.training,
                _channels_last(preprocessor(each.path).images[0], values["layout"] == "nhwc"),
                normalization_of(values, 1 if values["color"] == "gray" else 3),
            )
            for each in compared
        ]
    )


def _overall(differences: Sequence[Difference | None]) -> Difference | None:
    known = [each for each in differences if each is not None]
    if len(known) < len(differences) or not known:
        return None
    return Difference(
        float(np.mean([each.mean for each in known])),
        max(each.largest for each in known),
        float(np.mean([each.equal for each in known])),
    )


def _channels_last(tensor: NDArray[Any], is_last: bool) -> NDArray[np.float32]:
    ordered = tensor if is_last else tensor.transpose(1, 2, 0)
    return np.ascontiguousarray(ordered, np.float32)


def normalization_of(parameters: Mapping[str, str], channels: int) -> Normalization:
    """Return the normalisation that all parameters of preprocess mean, for so many channels."""
    mean, std = (
        tuple(float(value) for value in parameters[name].split(",")) for name in ("mean", "std")
    )
    return Normalization(
        float(parameters["scale"]), _fitted(mean, channels), _fitted(std, channels)
    )


def _fitted(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return values[:channels] if len(values) >= channels else values[:1] * channels


def _common_shape(
    compared: Sequence[ImageParity], pipeline: TrainingPipeline
) -> tuple[tuple[int, int], int]:
    shapes = {each.training.shape for each in compared}
    if len(shapes) > 1:
        first, second = (list(shape) for shape in sorted(shapes)[:2])
        raise EvaluationError(
            f"{pipeline.name} makes tensors of several shapes, such as {first} and {second} "
            "[H, W, C], and endcap makes one size; let the pipeline pad or crop to one"
        )
    height, width, channels = shapes.pop()
    return (height, width), channels


@dataclass(frozen=True)
class _Form:
    """Layout and data type of a tensor."""

    layout: str
    dtype: str


def _common_form(forms: Collection[_Form], pipeline: TrainingPipeline) -> _Form:
    if len(forms) > 1:
        texts = sorted(f"{form.dtype} {form.layout}" for form in forms)
        raise EvaluationError(
            f"{pipeline.name} makes tensors of several types or layouts, {' and '.join(texts)}; "
            "let it make one"
        )
    return next(iter(forms))


_SAME_FLOATS = ("float32", "float64")


def _observed(
    own: Mapping[str, str],
    form: _Form,
    size: tuple[int, int],
    channels: int,
    *,
    has_network: bool,
) -> list[Cause]:
    """Return the causes that the tensors' shapes and types show."""
    causes = []
    height, width = (int(side) for side in own["size"].split(","))
    if size != (height, width):
        is_swapped = size == (width, height)
        causes.append(
            Cause(
                name="size",
                title="size of the tensor",
                training=f"{size[0]},{size[1]}",
                endcap=own["size"],
                parameters={"size": f"{size[0]},{size[1]}"},
                advice="height and width are swapped; endcap's order is height,width"
                if is_swapped
                else "height,width; the network has to take it",
            )
        )
    is_gray = own["color"] == "gray"
    if is_gray != (channels == 1):
        color = "gray" if channels == 1 else "rgb"
        causes.append(
            Cause(
                name="channels",
                title="number of channels",
                training=str(channels),
                endcap="1" if is_gray else "3",
                parameters={"color": color},
            )
        )
    if has_network:
        return causes
    if form.layout != own["layout"]:
        causes.append(
            Cause(
                name="layout",
                title="order of the dimensions",
                training=form.layout,
                endcap=own["layout"],
                parameters={"layout": form.layout},
            )
        )
    dtype = form.dtype
    if dtype != own["dtype"] and not {dtype, own["dtype"]} <= set(_SAME_FLOATS):
        known = dtype in ("float32", "float16", "uint8", "int8")
        causes.append(
            Cause(
                name="dtype",
                title="type of the numbers",
                training=dtype,
                endcap=own["dtype"],
                parameters={"dtype": dtype} if known else {},
                advice="" if known else f"endcap does not make {dtype}",
            )
        )
    return causes
