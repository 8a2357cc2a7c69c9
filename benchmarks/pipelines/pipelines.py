"""The pipelines that are compared: what each requests, and which models its server has to load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Task = Literal["detect", "cascade"]
Network = Literal["sample detector", "recorded head"]
NETWORKS: tuple[Network, ...] = ("sample detector", "recorded head")

_ENDS = ("preprocess", "detector", "postprocess")
_DETECT = (*_ENDS, "detect")
_PYTHON_ENDS = ("preprocess_python", "detector_python", "postprocess_python")
_CLASSIFY = (
    "preprocess_rois",
    "classifier",
    "classify_postprocess",
    "classify",
    "classify_rings",
)


@dataclass(frozen=True)
class Pipeline:
    """One way to do a task.

    Attributes:
        call: How a client sends a request, a name of `calls.CALLS`; "service" is the one without
            Triton, "in process" the one without any server.
        model: What gets the request; the models beside it are what its server needs.
        exact: Whether its responses have to be those of the comparison's first pipeline to the last
            bit; OpenCV's may be off by the tolerances of `responses`.
    """

    name: str
    how: str
    call: Literal["triton", "client side", "service", "in process", "steps", "decoupled"]
    model: str
    models: tuple[str, ...]
    exact: bool = True


@dataclass(frozen=True)
class Comparison:
    """A task and the pipelines to it; the first is what the others are verified against."""

    task: Task
    pipelines: tuple[Pipeline, ...]


DETECT = Comparison(
    "detect",
    (
        Pipeline("ensemble", "compiled backends, `detect`", "triton", "detect", _DETECT),
        Pipeline(
            "one process",
            "endcap around onnxruntime in a thread for each CPU; no server",
            "in process",
            "detector",
            (),
        ),
        Pipeline(
            "Python network",
            "`detect` with its network in the Python backend",
            "triton",
            "detect_python_network",
            ("preprocess", "detector_python", "postprocess", "detect_python_network"),
        ),
        Pipeline(
            "Python models",
            "endcap in the Python backend, `detect_python`",
            "triton",
            "detect_python",
            (*_PYTHON_ENDS, "detect_python"),
        ),
        Pipeline(
            "Python BLS",
            "`detect_bls` calls the three steps",
            "triton",
            "detect_bls",
            (*_ENDS, "detect_bls"),
        ),
        Pipeline(
            "C++ BLS",
            "`endcap_bls` without classifiers calls `detect`",
            "triton",
            "detect_cascade",
            (*_DETECT, "detect_cascade"),
        ),
        Pipeline(
            "client side",
            "endcap in the client, the tensor goes to `detector`",
            "client side",
            "detector",
            ("detector",),
        ),
        Pipeline(
            "OpenCV models",
            "OpenCV and NumPy in the Python backend",
            "triton",
            "detect_opencv",
            ("preprocess_opencv", "detector_python", "postprocess_opencv", "detect_opencv"),
            exact=False,
        ),
        Pipeline(
            "FastAPI service",
            "FastAPI, OpenCV, onnxruntime; no Triton",
            "service",
            "detector",
            (),
            exact=False,
        ),
    ),
)
CLASSIFY = Comparison(
    "cascade",
    (
        Pipeline(
            "client side",
            "the client calls `detect`, `preprocess_rois`, the classifiers",
            "steps",
            "detect",
            (*_DETECT, *_CLASSIFY),
        ),
        Pipeline(
            "Python BLS",
            "`cascade_bls`, asynchronous calls",
            "triton",
            "cascade_bls",
            (*_DETECT, *_CLASSIFY, "cascade_bls"),
        ),
        Pipeline(
            "Python BLS, decoupled",
            "`cascade_bls_decoupled`, a response for each detection, over gRPC",
            "decoupled",
            "cascade_bls_decoupled",
            (*_DETECT, *_CLASSIFY, "cascade_bls_decoupled"),
        ),
        Pipeline(
            "C++ BLS",
            "`cascade` in the backend `endcap_bls`",
            "triton",
            "cascade",
            (*_DETECT, *_CLASSIFY, "cascade"),
        ),
    ),
)
COMPARISONS = (DETECT, CLASSIFY)
