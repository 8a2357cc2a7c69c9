"""Comparison of endcap's tensors with those of a training pipeline."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.errors import EndcapError, InvalidArgumentError
from endcap.evaluation import EvaluationError, ShowProgress
from endcap.evaluation.parity.pipelines import TrainingPipeline
from endcap.evaluation.parity.search import SMALL_STEPS, Explainer, Explanation, Floats
from endcap.preprocess import Preprocessor
from endcap.repository.errors import RepositoryError
from endcap.repository.input_normalization import Normalization, read_normalization
from endcap.repository.onnx_file import read_onnx

_EQUAL_STEPS = 0.01  # a difference that counts as none: float32 rounding behind the normalisation
_SAME_PAD = 0.6  # pixel values of padding that count as equal
_MAX_SEARCHED = 6  # each image costs the search time
_DTYPES = ("float32", "float16", "uint8", "int8")
_NORMALIZATION = ("scale", "mean", "std")


@dataclass(frozen=True)
class Difference:
    """Differences of two tensors, or of all images' tensors, in 8-bit steps of the pixels.

    Attributes:
        mean_steps: Over all numbers.
        max_steps: The largest.
        equal_share: Share of the numbers that differ by less than a hundredth of a step.
    """

    mean_steps: float
    max_steps: float
    equal_share: float


@dataclass(frozen=True)
class Cause:
    """One thing that a training pipeline does otherwise.

    Attributes:
        name: The parameter of preprocess; "normalization" for scale, mean and std together.
        training, endcap: Its values.
        parameters: What to set so that endcap does the same.
        effect: The difference that this alone makes; None where tensors cannot be compared.
    """

    name: str
    training: str
    endcap: str
    parameters: dict[str, str]
    effect: Difference | None = None


@dataclass(frozen=True)
class _Image:
    """The two tensors of one image, float32 [H, W, C].

    Attributes:
        geometry: As of preprocess with the EXIF orientation applied, float32 [8].
    """

    path: Path
    training: Floats
    endcap: Floats
    geometry: Floats

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the decoded image."""
        width, height = self.geometry[4:6].tolist()
        return int(height), int(width)

    @property
    def is_turned(self) -> bool:
        """Whether EXIF turns or mirrors it."""
        return bool(self.geometry[6] > 1)

    def is_smaller_than(self, size: tuple[int, ...]) -> bool:
        """Return whether both sides are shorter than those of a tensor."""
        return self.sides[0] < size[0] and self.sides[1] < size[1]


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """The result of a comparison.

    Attributes:
        training: The training pipeline's name.
        parameters: All of endcap's parameters of preprocess.
        images: By path the difference; None where sizes or channels differ.
        failures: By path why an image could not be compared.
        before: Of all images; None where the tensors' shapes differ.
        causes: The largest first.
        settings: The parameters to set, those of all causes.
        after: Of all images, with these set; None where shapes differ even then.
        notes: What the images do not show.
    """

    training: str
    parameters: dict[str, str]
    images: dict[str, Difference | None]
    failures: dict[str, str]
    before: Difference | None
    causes: tuple[Cause, ...]
    settings: dict[str, str]
    after: Difference | None
    notes: tuple[str, ...]

    @property
    def unexplained_steps(self) -> float | None:
        """The mean difference that no parameter explains; None where shapes stay different."""
        return self.after.mean_steps if self.after else None

    @property
    def ok(self) -> bool:
        """Whether nothing differs: no cause, no difference without a cause, no failed image."""
        is_same = self.before is not None and self.before.mean_steps < SMALL_STEPS
        return is_same and not self.causes and not self.failures

    def to_json(self) -> dict[str, Any]:
        """Return the object that `endcap parity --json` prints."""
        return {**asdict(self), "unexplained_mean_steps": self.unexplained_steps}


def compare_tensors(
    images: Sequence[Path],
    pipeline: TrainingPipeline,
    parameters: Mapping[str, str],
    *,
    progress: ShowProgress,
    network: Path | None = None,
) -> ParityReport:
    """Compare the tensors of images, and find the parameters that make them differ.

    Args:
        images: Files.
        pipeline: The training's.
        parameters: Endcap's parameters of preprocess, `preset` among them, or none.
        progress: Shows the progress of a step.
        network: An ONNX file. It decides the layout and the type of the tensor, so that these are
            not causes, and what it does to each channel first is taken into account.

    Raises:
        EvaluationError: No image can be compared.
        InvalidArgumentError: Impossible parameters or tensors.
    """
    preprocessor = make_preprocessor(parameters)
    own = preprocessor.parameters
    upright = make_preprocessor({**own, "exif": "apply"})
    compared: list[_Image] = []
    failures: dict[str, str] = {}
    forms: set[tuple[str, str]] = set()  # data type and layout
    with progress("images", len(images)) as advance:
        for path in images:
            try:
                tensor, made = pipeline(path), preprocessor(path)
            except (EndcapError, OSError) as error:
                failures[str(path)] = str(error)
            else:
                layout = "nchw" if tensor.shape[0] in (1, 3) else "nhwc"
                forms.add((str(tensor.dtype), layout))
                theirs = _channels_last(tensor, layout)
                ours = _channels_last(made.images[0], own["layout"])
                geometry = (made if own["exif"] == "apply" else upright(path)).geometry[0]
                compared.append(_Image(path, theirs, ours, geometry))
            advance()
    if not compared:
        path_text, reason = next(iter(failures.items()), ("", "no image was given"))
        raise EvaluationError(f"no image can be compared; {path_text}: {reason}")
    has_network = network is not None
    observed, notes = _observe(compared, forms, pipeline.name, own, has_network=has_network)
    try:
        inside = read_normalization(read_onnx(network)) if network is not None else None
    except RepositoryError as error:
        inside = None
        notes.append(f"whether the network itself normalises is not known: {error}")
    if inside is not None and not _fits_input(inside, compared):
        compared = [
            replace(each, training=inside.undo(each.training).astype(np.float32))
            for each in compared
        ]
        notes.append(
            f"the network itself begins by computing {inside}; the training's tensors are those "
            "behind that, and were compared in front of it"
        )
    seen = {**own, **observed}
    chosen = _choose(compared)
    encoded = [each.path.read_bytes() for each in chosen]
    with progress("parameters tried", None) as advance:
        explainer = Explainer(encoded, [each.training for each in chosen], seen, advance)
        found = explainer.explain()
    explained = _find_settings(found, explainer.own, seen) if found else {}
    differences = [difference(each.training, each.endcap, own) for each in compared]
    before = after = _overall(differences)
    if observed or explained:
        after = _difference_with({**own, **observed, **explained}, compared)
        if before is not None and after is not None and after.mean_steps > before.mean_steps / 2:
            explained = {}
            after = _difference_with({**own, **observed}, compared)
    causes = [
        *(Cause(name, value, own[name], {name: value}) for name, value in observed.items()),
        *_explained_causes(explained, seen, encoded),
    ]
    return ParityReport(
        training=pipeline.name,
        parameters=own,
        images={str(each.path): one for each, one in zip(compared, differences, strict=True)},
        failures=failures,
        before=before,
        causes=tuple(causes),
        settings={**observed, **explained},
        after=after,
        notes=tuple(notes),
    )


def make_preprocessor(parameters: Mapping[str, str]) -> Preprocessor:
    """Return a preprocessor of parameters that are texts, `preset` among them or not."""
    fields: dict[str, Any] = dict(parameters)
    return Preprocessor(**fields)


def difference(training: Floats, ours: Floats, parameters: Mapping[str, str]) -> Difference | None:
    """Return the difference of two tensors [H, W, C] of some parameters; None for two shapes."""
    if training.shape != ours.shape:
        return None
    normalization = Normalization.from_parameters(parameters, ours.shape[2])
    steps = np.abs(training - ours) / np.abs(normalization.slopes).astype(np.float32)
    equal = float(np.mean(steps < _EQUAL_STEPS))
    return Difference(float(steps.mean(dtype=np.float64)), float(steps.max()), equal)


def _difference_with(
    parameters: Mapping[str, str], compared: Sequence[_Image]
) -> Difference | None:
    """Return the difference with other parameters; None for other shapes, or impossible values."""
    try:
        preprocessor = make_preprocessor(parameters)
    except InvalidArgumentError:
        return None
    made = (preprocessor(each.path).images[0] for each in compared)
    return _overall(
        [
            difference(each.training, _channels_last(ours, parameters["layout"]), parameters)
            for each, ours in zip(compared, made, strict=True)
        ]
    )


def _overall(differences: Sequence[Difference | None]) -> Difference | None:
    known = [each for each in differences if each is not None]
    if len(known) < len(differences):
        return None
    return Difference(
        float(np.mean([each.mean_steps for each in known])),
        max(each.max_steps for each in known),
        float(np.mean([each.equal_share for each in known])),
    )


def _channels_last(tensor: NDArray[Any], layout: str) -> Floats:
    ordered = tensor if layout == "nhwc" else tensor.transpose(1, 2, 0)
    return np.ascontiguousarray(ordered, np.float32)


def _fits_input(inside: Normalization, compared: Sequence[_Image]) -> bool:
    """Return whether the training's tensors are in the range in which a network normalises."""
    low = min(float(each.training.min()) for each in compared)
    high = max(float(each.training.max()) for each in compared)
    return low >= 0 and (1.0 < high <= 255.0 if inside.takes_bytes else high <= 1.0)


def _observe(
    compared: Sequence[_Image],
    forms: set[tuple[str, str]],
    name: str,
    own: Mapping[str, str],
    *,
    has_network: bool,
) -> tuple[dict[str, str], list[str]]:
    """Return the parameters that the tensors' shape and type show, and what images do not show."""
    shapes = sorted({each.training.shape for each in compared})
    if len(shapes) > 1:
        raise EvaluationError(
            f"{name} makes tensors of several shapes, such as {list(shapes[0])} and "
            f"{list(shapes[1])} [H, W, C], and endcap makes one size; let the pipeline pad or crop "
            "to one"
        )
    if len(forms) > 1:
        texts = " and ".join(f"{dtype} {layout}" for dtype, layout in sorted(forms))
        raise EvaluationError(
            f"{name} makes tensors of several types or layouts, {texts}; let it make one"
        )
    ((dtype, layout),) = forms
    height, width, channels = shapes[0]
    observed = {"size": f"{height},{width}"}
    if (own["color"] == "gray") != (channels == 1):
        observed["color"] = "gray" if channels == 1 else "rgb"
    notes = list(_not_shown(compared, (height, width)))
    if not has_network:
        observed["layout"] = layout
        if dtype in _DTYPES:
            observed["dtype"] = dtype
        elif dtype != "float64":  # which NumPy makes of any arithmetic
            notes.append(f"the training's numbers are {dtype}, which endcap does not make")
    return {name: value for name, value in observed.items() if value != own[name]}, notes


def _not_shown(compared: Sequence[_Image], size: tuple[int, int]) -> Iterator[str]:
    """Yield what the images do not show."""
    if not any(each.is_turned for each in compared):
        yield "no image has an EXIF orientation, so that its handling was not compared"
    if not any(each.is_smaller_than(size) for each in compared):
        yield "no image is smaller than the tensor, so that enlarging was not compared"
    if all(np.allclose(each.geometry[:2], 1.0, atol=1e-6) for each in compared):
        yield "no image is resized, so that interpolation was not compared"
    if len({each.sides for each in compared}) == 1:
        yield "all images have one size, so that other aspect ratios were not compared"


def _choose(compared: Sequence[_Image]) -> list[_Image]:
    """Return the images for the search: the smallest of each kind first, then the smallest."""
    seen: set[tuple[bool, ...]] = set()
    first: list[_Image] = []
    rest: list[_Image] = []
    for each in sorted(compared, key=lambda one: one.sides[0] * one.sides[1]):
        height, width = each.sides
        kind = (each.is_turned, each.is_smaller_than(each.training.shape[:2]), height > width)
        (rest if kind in seen else first).append(each)
        seen.add(kind)
    return [*first, *rest][:_MAX_SEARCHED]


def _find_settings(
    found: Explanation, searched: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """Return the parameters that an explanation changes.

    Args:
        found: The explanation.
        searched: The parameters with which the search began.
        own: Endcap's, at the tensors' size.
    """
    wanted = {**searched, **found.changes}
    if wanted["fit"] != "center_crop":
        del wanted["resize_shorter"]
    settings = {name: value for name, value in wanted.items() if value != own[name]}
    ours = Normalization.from_parameters(own, len(found.normalization.mean))
    if not found.normalization.is_close(ours):
        before = ours.parameters()
        settings |= {
            name: value
            for name, value in found.normalization.parameters().items()
            if value != before[name]
        }
    if found.pad_values is not None:
        pad = min(max(round(float(np.mean(found.pad_values))), 0), 255)
        is_one = all(abs(value - pad) < _SAME_PAD for value in found.pad_values)
        is_ours = all(abs(value - int(own["pad_value"])) < _SAME_PAD for value in found.pad_values)
        if is_one and not is_ours:
            settings["pad_value"] = str(pad)
    return settings


def _explained_causes(
    settings: Mapping[str, str], own: Mapping[str, str], encoded: Sequence[bytes]
) -> list[Cause]:
    """Return a cause for each setting, of those that belong together one; the largest first."""
    groups: dict[str, dict[str, str]] = {}
    for name, value in settings.items():
        is_crop = name == "resize_shorter" and "fit" in settings
        group = "normalization" if name in _NORMALIZATION else "fit" if is_crop else name
        groups.setdefault(group, {})[name] = value
    raw = {"layout": "nhwc", "dtype": "float32"}

    def tensors(parameters: Mapping[str, str]) -> Floats:
        return np.asarray(make_preprocessor({**parameters, **raw})(encoded).images)

    final = {**own, **settings}
    causes = []
    for name, values in groups.items():
        before = {each: own[each] for each in values}
        effect = None
        with contextlib.suppress(InvalidArgumentError):  # values that do not go together
            without = tensors({**final, **before})
            effect = _overall(
                [difference(a, b, final) for a, b in zip(tensors(final), without, strict=True)]
            )
        causes.append(Cause(name, _join(values), _join(before), dict(values), effect))
    return sorted(causes, key=lambda each: -(each.effect.mean_steps if each.effect else 0.0))


def _join(values: Mapping[str, str]) -> str:
    if len(values) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{name} {value}" for name, value in values.items())
