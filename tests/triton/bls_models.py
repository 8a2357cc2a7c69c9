"""Cascades whose detections a client chooses behind the end of its file, and requests to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tritonclient.utils import InferenceServerException

from tests.triton.calls import Arrays, grpc_inputs, infer, strings
from tests.triton.model_folders import ON_CPU, batching, tensor, write_model, write_preprocess

ROWS = 40
BATCH = 8
CROP = 16
THRESHOLD = 0.25
ROUTES = "0=crops+kinds_single, 1|2=crops+kinds"  # class 3 has no route
MARK = b"\nfind "

ENCODED = [tensor("encoded", "TYPE_STRING", [1])]
IMAGES = [tensor("images", "TYPE_FP32", [3, CROP, CROP])]


DETECTIONS = [
    tensor("num_detections", "TYPE_INT32", [1]),
    tensor("detection_boxes", "TYPE_FP32", [ROWS, 4]),
    tensor("detection_scores", "TYPE_FP32", [ROWS]),
    tensor("detection_classes", "TYPE_INT32", [ROWS]),
    tensor("detection_indices", "TYPE_INT32", [ROWS]),
    tensor("status", "TYPE_INT32", [1]),
]


# Responses an execution's requests one by one. Waits until the client has gone where it is told to.
_FIND = """
import json, time
import numpy as np
import triton_python_backend_utils as pb_utils

def respond(request):
    files = pb_utils.get_input_tensor_by_name(request, "encoded").as_numpy()[:, 0]
    told = [json.loads(file.rsplit(b"\\nfind ", 1)[1]) for file in files]
    end = time.monotonic() + max(each.get("wait_s", 0) for each in told)
    while time.monotonic() < end:
        if request.is_cancelled():
            pb_utils.Logger.log_warn(f"found: {request.request_id()} is cancelled")
            code = pb_utils.TritonError.CANCELLED
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("cancelled", code))
        time.sleep(0.01)
    for each in told:
        if "fail" in each:
            code = pb_utils.TritonError.UNSUPPORTED
            text = f"{each['fail']}, {request.request_id()}"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(text, code))
    count = np.array([[each["count"]] for each in told], np.int32)
    row = np.arange(ROWS, dtype=np.float32)
    boxes = np.stack([row, row / 2, row + 60, row / 2 + 50], axis=1)
    valid = np.arange(ROWS) < count
    found = {
        "num_detections": count,
        "detection_boxes": boxes * valid[..., None],
        "detection_scores": ((ROWS - row) / ROWS * valid).astype(np.float32),
        "detection_classes": (np.arange(ROWS, dtype=np.int32) % 4) * valid,
        "detection_indices": np.where(valid, np.arange(ROWS), -1),
        "status": np.zeros_like(count),
    }
    types = {name: np.float32 if name[-5:] in ("boxes", "cores") else np.int32 for name in found}
    tensors = [pb_utils.Tensor(name, array.astype(types[name])) for name, array in found.items()]
    return pb_utils.InferenceResponse(tensors)

class TritonPythonModel:
    def execute(self, requests):
        return [respond(request) for request in requests]
""".replace("ROWS", str(ROWS))

# The brightness of a crop in steps, and how much is left of the step. `kinds_failing` fails where a
# crop of the request is bright, `kinds_odd` returns ids as strings.
_CLASSIFY = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_name"]

    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        images = pb_utils.get_input_tensor_by_name(request, "images").as_numpy()
        means = images.astype(np.float64).mean(axis=(-1, -2, -3)).reshape(*images.shape[:-3], 1)
        if self.name == "kinds_failing" and means.max() > 0.7:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("too bright"))
        ids = (means * 100).astype(np.int32)
        tensors = {
            "class_ids": ids.astype(np.object_) if self.name == "kinds_odd" else ids,
            "class_scores": (means * 100 % 1).astype(np.float32),
        }
        if LABELLED:
            names = [[f"step {each}".encode()] for each in tensors["class_ids"].ravel()]
            tensors["class_labels"] = np.array(names, np.object_).reshape(means.shape)
        return pb_utils.InferenceResponse([pb_utils.Tensor(*each) for each in tensors.items()])
"""


def told(file: bytes, **what: object) -> bytes:
    """A file with what the detector is to find in it: `count` rows, `fail` text, `wait_s`."""
    return file + MARK + json.dumps({"count": 0, **what}).encode()


def write_all(repository: Path) -> tuple[str, ...]:
    """Writes the models; returns the cascades' names."""
    for name, more in (("found", ""), ("found_cached", "response_cache { enable: true }")):
        detections = {"inputs": ENCODED, "outputs": DETECTIONS}
        _write_python(repository, name, _FIND, **detections, more=f"{more} {batching(0)}")
    for name, ids, labelled, batch in (
        ("kinds", "TYPE_INT32", True, BATCH),
        ("kinds_single", "TYPE_INT32", False, 0),
        ("kinds_failing", "TYPE_INT32", False, BATCH),
        ("kinds_odd", "TYPE_STRING", False, BATCH),
    ):
        outputs = [tensor("class_ids", ids, [1]), tensor("class_scores", "TYPE_FP32", [1])]
        outputs += [tensor("class_labels", "TYPE_STRING", [1])] * labelled
        source = f"LABELLED = {labelled}\n{_CLASSIFY}"
        _write_python(repository, name, source, inputs=IMAGES, outputs=outputs, batch=batch)
    for name, on_error in (("crops", "blank"), ("crops_strict", "error")):
        write_preprocess(
            repository,
            name,
            inputs=[*ENCODED, tensor("rois", "TYPE_FP32", [-1, 4])],
            parameters={"size": CROP, "fit": "stretch", "on_error": on_error},
            more=ON_CPU,
        )
    cascades: dict[str, dict[str, object]] = {
        "routed": {},
        "cached": {"detect_model": "found_cached"},
        "narrow": {"max_in_flight": 1, "classify_batch_size": 3},
        "single": {},
        "orphan": {"detect_model": "nowhere", "classifiers": ""},
        "classless": {"classifiers": "*=crops+nobody"},
        "strict": {"classifiers": "*=crops_strict+kinds"},
        "on_failing": {"classifiers": "*=crops+kinds_failing"},
        "on_odd": {"classifiers": "*=crops+kinds_odd"},
    }
    together = ("routed", "classless", "on_failing", "on_odd")
    for name, parameters in cascades.items():  # without the tensors, which the backend fills in
        write_model(
            repository,
            name,
            backend="endcap_bls",
            parameters={"detect_model": "found", "classifiers": ROUTES, **parameters},
            max_batch_size=0 if name == "single" else BATCH,
            more=f"{batching(20_000) if name in together else ''}\n{ON_CPU}",
        )
    return tuple(cascades)


def _write_python(
    repository: Path, name: str, source: str, *, batch: int = BATCH, more: str = "", **tensors: Any
) -> None:
    write_model(
        repository,
        name,
        backend="python",
        max_batch_size=batch,
        more=f"{more}\n{ON_CPU}",
        files={"1/model.py": source},
        **tensors,
    )


# --- requests -------------------------------------------------------------------------------------


def send_request(client: Any, files: list[bytes], model: str = "routed", **options: Any) -> Arrays:
    return infer(client, model, {"encoded": strings(files)}, **options)


def at_once(client: Any, files: list[bytes], model: str) -> list[Arrays | InferenceServerException]:
    """The responses to requests that are sent together, or their errors."""

    def one(file: bytes) -> Arrays | InferenceServerException:
        try:
            return send_request(client, [file], model)
        except InferenceServerException as error:
            return error

    with ThreadPoolExecutor(len(files)) as pool:
        return list(pool.map(one, files))


def send(client: Any, file: bytes, request_id: str, done: Any = None) -> Any:
    return client.async_infer(
        "routed",
        grpc_inputs({"encoded": strings([file])}),
        callback=done or (lambda result, error: None),
        request_id=request_id,
    )


class Route(NamedTuple):
    """The models that a detection's region goes through."""

    crops: str
    classifier: str
    batched: bool = True


TOLD_ROUTES = {
    0: Route("crops", "kinds_single", batched=False),
    1: Route("crops", "kinds"),
    2: Route("crops", "kinds"),
}


def by_hand(
    client: Any,
    file: bytes,
    detect: str = "found",
    routes: Mapping[int, Route] = TOLD_ROUTES,
) -> Arrays:
    """The response of a cascade for one image, its steps taken one after the other by a client."""
    found = infer(client, detect, {"encoded": strings([file])})
    shape = found["detection_scores"].shape
    found["class_ids"] = np.full(shape, -1, np.int32)
    found["class_scores"] = np.zeros(shape, np.float32)
    found["class_labels"] = np.full(shape, b"", np.object_)
    for row in range(int(found["num_detections"][0, 0])):
        route = routes.get(int(found["detection_classes"][0, row]))
        if route is None or not found["detection_scores"][0, row] > THRESHOLD:
            continue
        region = found["detection_boxes"][0, row : row + 1]
        regions = {"encoded": strings([file], batched=False), "rois": region}
        crop = infer(client, route.crops, regions)
        if crop["status"][0] == 0:
            images = crop["images"] if route.batched else crop["images"][0]
            for name, values in infer(client, route.classifier, {"images": images}).items():
                found[name][0, row] = values.item()
    return found


def joined(responses: list[Arrays]) -> Arrays:
    return {name: np.concatenate([each[name] for each in responses]) for name in responses[0]}
