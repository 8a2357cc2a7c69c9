"""The reference that follows the configuration of a served ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from endcap import _core
from endcap.errors import UnsupportedError
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.numpy_heads import HEADS
from endcap.evaluation.reference import Recipe, Reference
from endcap.postprocess import Postprocessor
from endcap.preprocess import Preprocessor
from endcap.triton.ensemble import (
    POSTPROCESS_BACKEND,
    PREPROCESS_BACKEND,
    find_network,
    read_ensemble,
    stage_parameters,
)

_ADVICE = "compare with your own pipeline, whose results `endcap evaluate --predictions` takes"
_PROTOTYPES = "protos"  # of masks, which the reference does not compare


def make_recipe(
    preprocess: Mapping[str, Any],
    postprocess: Mapping[str, Any],
    outputs: Mapping[str, str] | None = None,
) -> Recipe:
    """Return the recipe for parameters of preprocess and postprocess.

    Args:
        preprocess: Those that are not the default.
        postprocess: Likewise.
        outputs: The network's names of its outputs, by postprocess' names.

    Raises:
        InvalidArgumentError: Impossible parameters.
        UnsupportedError: Parameters that the reference cannot follow.
    """
    before = Preprocessor(**preprocess).parameters
    after = Postprocessor(**postprocess).parameters
    problem = ""
    if after["head"] not in HEADS:
        problem = f"head is {after['head']}, and the reference reads only {', '.join(HEADS)}"
    elif before["interpolation"] != "bilinear":
        problem = f"interpolation is {before['interpolation']}, and the reference has only bilinear"
    elif before["antialias"] == "true" and before["quantize"] != "uint8":
        problem = "the reference has antialias only with quantize uint8"
    if problem:
        raise UnsupportedError(f"{problem}; {_ADVICE}")
    ((_, _, image),) = _core.Preprocessor(list(before.items()), 1).outputs[:1]
    heads = _core.Postprocessor(list(after.items()), 1).inputs
    return Recipe(
        preprocess=before,
        postprocess=after,
        image=tuple(image),
        heads={name: tuple(shape) for name, _, shape in heads if name != _PROTOTYPES},
        outputs=outputs or {},
    )


def open_reference(
    repository: Path,
    model: str,
    *,
    network: Path | None = None,
    score_threshold: float | None = None,
) -> Reference:
    """Return the reference that does what an ensemble of a repository does.

    Args:
        repository: The model repository.
        model: The ensemble's name.
        network: The ONNX file; None takes the one that the repository serves.
        score_threshold: Instead of the served one.

    Raises:
        EvaluationError: The network cannot be loaded, or is not the one that is served.
        ServerError: A configuration that cannot be read.
        UnsupportedError: What the reference cannot do.
    """
    ensemble = read_ensemble(repository, model)
    served = find_network(ensemble)
    before = stage_parameters(ensemble, PREPROCESS_BACKEND)
    after = stage_parameters(ensemble, POSTPROCESS_BACKEND)
    if score_threshold is not None:
        after["score_threshold"] = repr(score_threshold)
    recipe = make_recipe(before, after, served.outputs)
    file = network or served.find_file()
    if file is None:
        raise EvaluationError(
            f"{served.step.folder} has no ONNX file, and the comparison runs the network as one; "
            "give it with --network FILE.onnx"
        )
    return Reference(file, recipe)
