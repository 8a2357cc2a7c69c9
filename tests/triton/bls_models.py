"""Models of a cascade whose detections a client chooses: they stand behind the end of its file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.triton.model_folders import ON_CPU, batching, tensor, write_model, write_preprocess

ROWS = 40
BATCH = 8
CROP = 16
THRESHOLD = 0.25
ROUTES = "0=rois+kinds_single, 1|2=rois+kinds"  # class 3 has no route
MARK = b"\nfind "

ENCODED = [tensor("encoded", "TYPE_STRING", [1])]
IMAGES = [tensor("images", "TYPE_FP32", [3, CROP, CROP])]
_KINDS = [tensor("class_ids", "TYPE_INT32", [1]), tensor("class_scores", "TYPE_FP32", [1])]
_LABELS = tensor("class_labels", "TYPE_STRING", [1])
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
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(each["fail"], code))
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

# The brightness of a crop in steps, and how much is left of the step.
_CLASSIFY = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        images = pb_utils.get_input_tensor_by_name(request, "images").as_numpy()
        means = images.astype(np.float64).mean(axis=(-1, -2, -3)).reshape(*images.shape[:-3], 1)
        tensors = {
            "class_ids": (means * 100).astype(np.int32),
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


def write_all(repository: Path) -> None:
    for name, more in (("found", ""), ("found_cached", "response_cache { enable: true }")):
        write_python(
            repository,
            name,
            _FIND,
            inputs=ENCODED,
            outputs=DETECTIONS,
            batch=BATCH,
            more=f"{more} {batching(0)}",
        )
    write_classifier(repository, "kinds", labelled=True, batch=BATCH)
    write_classifier(repository, "kinds_single", labelled=False, batch=0)
    write_rois(repository, "rois", on_error="blank")
    write_rois(repository, "rois_strict", on_error="error")
    routed = {"detect_model": "found", "classifiers": ROUTES}
    delay = batching(20_000)
    write_cascade(repository, "cascade", routed, more=delay)
    write_cascade(repository, "cached", {**routed, "detect_model": "found_cached"})
    write_cascade(repository, "narrow", {**routed, "max_in_flight": 1, "classify_batch_size": 3})
    write_cascade(repository, "single", routed, batch=0)
    write_cascade(repository, "orphan", {"detect_model": "nowhere"})
    write_cascade(repository, "classless", {**routed, "classifiers": "*=rois+nobody"}, more=delay)
    write_cascade(repository, "strict", {**routed, "classifiers": "*=rois_strict+kinds"})


def write_classifier(repository: Path, name: str, *, labelled: bool, batch: int) -> None:
    write_python(
        repository,
        name,
        f"LABELLED = {labelled}\n{_CLASSIFY}",
        inputs=IMAGES,
        outputs=[*_KINDS, _LABELS] if labelled else _KINDS,
        batch=batch,
    )


def write_rois(repository: Path, name: str, *, on_error: str) -> None:
    write_preprocess(
        repository,
        name,
        inputs=[*ENCODED, tensor("rois", "TYPE_FP32", [-1, 4])],
        parameters={"size": CROP, "fit": "stretch", "on_error": on_error},
        more=ON_CPU,
    )


def write_cascade(
    repository: Path,
    name: str,
    parameters: dict[str, object],
    *,
    batch: int = BATCH,
    more: str = "",
) -> None:
    """Without inputs and outputs, which the backend fills in."""
    write_model(
        repository,
        name,
        backend="endcap_bls",
        parameters=parameters,
        max_batch_size=batch,
        more=f"{more}\n{ON_CPU}",
    )


def write_python(
    repository: Path,
    name: str,
    source: str,
    *,
    inputs: list[str],
    outputs: list[str],
    batch: int,
    more: str = "",
) -> None:
    write_model(
        repository,
        name,
        backend="python",
        max_batch_size=batch,
        inputs=inputs,
        outputs=outputs,
        more=f"{more}\n{ON_CPU}",
        files={"1/model.py": source},
    )
