"""The steps of an ensemble that detects, as calls: preprocess, network, postprocess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from endcap.python_backend.cascade_calls import ENCODED, CallModelAsync
from endcap.python_backend.model_calls import ModelCall, Tensor
from endcap.triton.parameters import read_parameters


@dataclass(frozen=True, kw_only=True)
class DetectSettings:
    """The models of the steps, by their parameters."""

    preprocess_model: str = "preprocess"
    detector_model: str = "detector"
    postprocess_model: str = "postprocess"


def read_detect_settings(model_config: Mapping[str, Any]) -> DetectSettings:
    """Read the parameters of a config.pbtxt; `labels` among them is for clients.

    Raises:
        InvalidArgumentError: a parameter that is not known.
    """
    names = [field.name for field in fields(DetectSettings)]
    given = read_parameters(model_config, [*names, "labels"])
    return DetectSettings(**{name: given[name] for name in names if name in given})


async def detect(
    call: CallModelAsync,
    settings: DetectSettings,
    *,
    encoded: Tensor,
    wanted: Sequence[str],
    request: Any,
) -> dict[str, Tensor]:
    """Return the outputs `wanted` of one request.

    Every tensor goes to the next step as it is and where it is. The network's outputs are
    postprocess' inputs, whatever their names.

    Raises:
        ModelCallError: a step failed.
    """
    prepared = await call(
        ModelCall(
            model=settings.preprocess_model,
            inputs={ENCODED: encoded},
            outputs=("images", "geometry", "status"),
            origin=request,
            on_cpu=False,
        )
    )
    images = {"images": prepared.pop("images")}
    network = settings.detector_model
    heads = await call(ModelCall(model=network, inputs=images, origin=request, on_cpu=False))
    return await call(
        ModelCall(
            model=settings.postprocess_model,
            inputs={**heads, **prepared},
            outputs=tuple(wanted),
            origin=request,
            on_cpu=False,
        )
    )
