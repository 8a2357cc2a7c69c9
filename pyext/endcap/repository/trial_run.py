"""Runs a network on noise, to see what comes out rather than to trust what the file declares."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import RepositoryError
from endcap.repository.network_input import NetworkInput
from endcap.repository.onnx_file import OnnxFile

Answers = Mapping[str, NDArray[Any]]  # outputs by name, with the batch dimension


@dataclass(frozen=True)
class TrialRun:
    """What the network answered to one image of noise, and which dimensions it leaves open.

    is_free: of each output and dimension, as ONNX Runtime understands the file.
    """

    answers: Answers
    is_free: Mapping[str, tuple[bool, ...]]


_ONLY_FATAL = 4  # of the severities of ONNX Runtime: its errors come as exceptions too
# Two answers to one image are the same but for the order of sums, and of rows with nearly equal
# scores: at most this share of their numbers is further apart than that, absolutely and relatively.
_DIFFERING_SHARE = 0.05
_SAME_WITHIN = 0.02
# What ONNX Runtime says of an operator that it does not have.
_NOT_THERE = (
    "No Op registered",
    "is not a registered function/op",
    "Could not find an implementation",
)


class UnknownOperatorError(RepositoryError):
    """ONNX Runtime lacks an operator of the network, which may be TensorRT's own."""


def try_network(network: OnnxFile, image: NetworkInput, *, several: bool) -> TrialRun:
    """Runs the network on one image of noise, on another, and on both.

    several: whether it has to take two images at once as well.
    Raises UnknownOperatorError, and RepositoryError when the network cannot be loaded or run, gives
    no tensors, as many rows as it finds, or something else for two images than for each alone.
    """
    session = _open(network)
    first, second = _noise(image, seed=0), _noise(image, seed=1)
    answers = _run(session, network, image, first)
    for name, answer in answers.items():
        if not isinstance(answer, np.ndarray):
            raise RepositoryError(
                f"{network.path} gives {name} as a {type(answer).__name__}, and only tensors can "
                "be passed on; export it without what makes that, such as a classifier's ZipMap"
            )
    others = _run(session, network, image, second)
    for name, again in others.items():
        if again.shape != answers[name].shape or not again.size:
            raise RepositoryError(
                f"{network.path} gives as many rows of {name} as it finds "
                f"({list(answers[name].shape)} and {list(again.shape)} for two images of noise), "
                "and a model of Triton's has a fixed number; export it with one, filled up"
            )
    if several and image.batch is None:
        both = _run(session, network, image, np.concatenate([first, second]))
        _check_shapes(answers, both, network)
        _check_numbers((answers, others), both, network)
    # A symbolic dimension is a text there, or None.
    free = {
        output.name: tuple(not isinstance(dim, int) for dim in output.shape)
        for output in session.get_outputs()
    }
    return TrialRun(answers, free)


def _check_shapes(one: Answers, two: Answers, network: OnnxFile) -> None:
    for name, answer in one.items():
        shape = (2 * answer.shape[0], *answer.shape[1:]) if answer.ndim else ()
        if two[name].shape != shape:
            raise RepositoryError(
                f"{network.path} claims to take any number of images, and gives {name} as "
                f"{list(answer.shape)} for one and {list(two[name].shape)} for two; export it "
                "again, or give --max-batch 1"
            )


def _check_numbers(alone: tuple[Answers, Answers], both: Answers, network: OnnxFile) -> None:
    for name, pair in both.items():
        if pair.ndim == 0 or pair.dtype.kind != "f":
            continue
        for number, answers in enumerate(alone):
            one, other = (np.sort(each[0], axis=None) for each in (answers[name], pair[number:]))
            is_close = np.isclose(one, other, rtol=_SAME_WITHIN, atol=_SAME_WITHIN, equal_nan=True)
            if np.mean(~is_close) > _DIFFERING_SHARE:
                raise RepositoryError(
                    f"{network.path} mixes the images of a batch: {name} of an image is another "
                    "beside a second image than alone; export it for evaluation, not for training, "
                    "or give --max-batch 1"
                )


def _open(network: OnnxFile) -> Any:
    try:
        onnxruntime: Any = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise RepositoryError(
            f"trying the network takes onnxruntime, which cannot be imported ({error}); run "
            "`pip install 'endcap[init]'`"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ONLY_FATAL
    providers = ["CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(str(network.file), options, providers=providers)
    except Exception as error:  # ONNX Runtime's errors have no common type
        reason = f"{network.path} cannot be loaded by ONNX Runtime: {_one_line(error)}"
        if any(text in reason for text in _NOT_THERE):
            raise UnknownOperatorError(
                f"{reason}; a network with operators that only TensorRT has is for "
                "--runtime tensorrt"
            ) from error
        raise RepositoryError(f"{reason}; export it again") from error


def _run(session: Any, network: OnnxFile, image: NetworkInput, images: NDArray[Any]) -> Answers:
    names = [output.name for output in session.get_outputs()]
    try:
        return dict(zip(names, session.run(None, {image.name: images}), strict=True))
    except Exception as error:  # ONNX Runtime's errors have no common type
        count = "an image" if len(images) == 1 else f"{len(images)} images"
        raise RepositoryError(
            f"{network.path} cannot be run on {count} of {list(image.dims)}: {_one_line(error)}; "
            "export it again" + ("" if len(images) == 1 else ", or give --max-batch 1")
        ) from error


def _noise(image: NetworkInput, *, seed: int) -> NDArray[Any]:
    """Of no picture; values as a network is used to, between 0 and 1, or 0 and 255 of integers."""
    values = np.random.default_rng(seed).random((1, *image.dims), np.float32)
    if image.dtype in ("uint8", "int8"):
        values *= 127 if image.dtype == "int8" else 255
    return values.astype(image.dtype)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
