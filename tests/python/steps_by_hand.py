"""Steps of an ensemble taken by the client, without a server: requests out, answers in.

The repositories are those of `endcap init`, and their networks are computed here.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import family_networks as families
import jpegs
import numpy as np
from family_networks import Network
from google.protobuf.json_format import MessageToDict
from init_runs import written

import endcap
from endcap.client.calls import Call, InputTensor, OutputTensor, Response
from endcap.client.errors import RequestError
from endcap.client.shared_memory import Lease
from endcap.client.steps import ClientPipeline, ServedSteps
from endcap.client.steps.served_steps import steps_reading
from endcap.triton.model_config import read_model_config

Json = dict[str, Any]
Configs = Mapping[str, Json]

PICTURES = [jpegs.photo_jpeg(90, 130, seed=1), jpegs.photo_jpeg(200, 150, seed=3)]


def read_configs(repository: Path) -> dict[str, Json]:
    return {
        folder.name: MessageToDict(read_model_config(folder), preserving_proto_field_name=True)
        for folder in repository.iterdir()
        if folder.is_dir()
    }


def read_steps(configs: Configs, model: str = "detect") -> ServedSteps:
    reading = steps_reading(model)
    wanted = next(reading)
    while True:
        try:
            wanted = reading.send(configs[wanted])
        except StopIteration as done:
            return done.value


def drive(
    pipeline: ClientPipeline,
    images: Sequence[Any],
    answer: Callable[[Call], Response],
    lease: Lease | None,
) -> list[dict[str, Any]]:
    """What the steps return; what `answer` raises is thrown in, as clients do it."""
    steps = pipeline.steps(images, lease, "an-id")
    try:
        call = next(steps)
        while True:
            try:
                answered = answer(call)
            except RequestError as error:
                call = steps.throw(error)
            else:
                call = steps.send(answered)
    except StopIteration as done:
        return done.value


def go(
    pipeline: ClientPipeline, images: Sequence[Any], answer: Callable[[Call], Response]
) -> list[dict[str, Any]]:
    """The same over the wire."""
    return drive(pipeline, images, answer, None)


def network_answer(configs: Configs, model: str, network: Network) -> Callable[[Call], Response]:
    """Answers requests to a network's model as the server would."""
    types = {each["name"]: each["data_type"] for each in configs[model]["output"]}
    names = {"TYPE_FP32": "float32", "TYPE_FP16": "float16", "TYPE_INT32": "int32"}

    def answer(call: Call) -> Response:
        assert call.model == model
        assert call.request_id == "an-id"
        (images,) = call.inputs
        rows = [network.answers(image) for image in images.data]
        tensors = {
            output.name: np.stack([row[output.name] for row in rows]).astype(
                names[types[output.name]]
            )
            for output in call.outputs
        }
        return Response(tensors)

    return answer


def parameters(config: Json) -> dict[str, Any]:
    given = {name: each["string_value"] for name, each in config["parameters"].items()}
    of_server = ("labels_file", "FORCE_CPU_ONLY_INPUT_TENSORS")
    return {name: text for name, text in given.items() if name not in of_server}


def in_python(configs: Configs, network: Network, model: str = "detect") -> dict[str, Any]:
    """What the package's own functions make of the pictures."""
    before, between, after = configs[model]["ensemble_scheduling"]["step"]
    prepared = endcap.Preprocessor(**parameters(configs[before["model_name"]]))(PICTURES)
    own = {tensor: name for name, tensor in between["output_map"].items()}
    outputs = [OutputTensor(name) for name in own.values()]
    call = Call(
        between["model_name"], [InputTensor.of("images", prepared.images)], outputs, "an-id"
    )
    answer = network_answer(configs, between["model_name"], network)(call)
    heads = {
        part: answer.tensors[own[tensor]]
        for part, tensor in after["input_map"].items()
        if tensor in own
    }
    found = endcap.Postprocessor(**parameters(configs[after["model_name"]]))(
        heads, prepared.geometry, prepared.status
    )
    if isinstance(found, endcap.Classification):
        return {"class_scores": found.scores, "class_ids": found.class_ids}
    assert isinstance(found, endcap.Detections)
    masks = {} if found.rle is None else {"mask_size": found.mask_size, "rle": found.rle}
    return masks | {
        "num_detections": found.num_detections[:, None],
        "detection_boxes": found.boxes,
        "detection_scores": found.scores,
        "detection_classes": found.class_ids,
        "detection_indices": found.indices,
        "status": found.status[:, None],
    }


@functools.cache
def v8() -> dict[str, Json]:
    """The configurations of a repository around a YOLOv8; not to be changed."""
    with tempfile.TemporaryDirectory() as folder:
        return read_configs(written(Path(folder), families.yolov8()))


def detector(configs: Configs) -> Callable[[Call], Response]:
    """Answers for the network of `v8`."""
    return network_answer(configs, "detector", families.yolov8())
