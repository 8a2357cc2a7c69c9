"""Models that a cascade may be given and that do not behave: they do what the file tells them."""

from __future__ import annotations

from pathlib import Path

from tests.triton.bls_models import (
    BATCH,
    ENCODED,
    IMAGES,
    write_cascade,
    write_classifier,
    write_python,
    write_rois,
)
from tests.triton.model_folders import batching, tensor, write_ensemble

DETECTIONS = [
    tensor("num_detections", "TYPE_INT32", [1]),
    tensor("detection_boxes", "TYPE_FP32", [-1, 4]),
    tensor("detection_scores", "TYPE_FP32", [-1]),
    tensor("detection_classes", "TYPE_INT32", [-1]),
    tensor("detection_indices", "TYPE_INT32", [-1]),
    tensor("status", "TYPE_INT32", [1]),
]

# As many rows as there are detections. Only the last has a score.
_UNEVEN = """
import json, time
import numpy as np
import triton_python_backend_utils as pb_utils

def respond(request):
    file = pb_utils.get_input_tensor_by_name(request, "encoded").as_numpy()[0]
    told = json.loads(file.rsplit(b"\\nfind ", 1)[1])
    if SLOW:
        time.sleep(told.get("wait_s", 0))
    elif "fail" in told:
        # Server 2.51 crashes where a step of an ensemble fails before it has started the other.
        time.sleep(told.get("wait_s", 0) / 2)
        code = getattr(pb_utils.TritonError, told["fail"])
        text = f"not today, {request.request_id()}"
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(text, code))
    count = told["count"]
    found = {
        "num_detections": np.array([count], np.int32),
        "detection_boxes": np.tile(np.float32([0, 0, 50, 50]), (count, 1)),
        "detection_scores": np.where(np.arange(count) == count - 1, 0.9, 0).astype(np.float32),
        "detection_classes": np.ones(count, np.int32),
        "detection_indices": np.arange(count, dtype=np.int32),
        "status": np.zeros(1, np.int32),
    }
    return pb_utils.InferenceResponse([pb_utils.Tensor(*each) for each in found.items()])

class TritonPythonModel:
    def execute(self, requests):
        return [respond(request) for request in requests]
"""
# Fails a request that holds a crop brighter than LEVEL, or gives strings for class ids.
LEVEL = 0.7
_CLASSIFY = f"""
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.ids = np.object_ if args["model_name"] == "kinds_odd" else np.int32

    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        images = pb_utils.get_input_tensor_by_name(request, "images").as_numpy()
        means = images.mean(axis=(1, 2, 3))[:, None]
        if self.ids is np.int32 and means.max() > {LEVEL}:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("too bright"))
        tensors = [pb_utils.Tensor("class_ids", (means * 100).astype(int).astype(self.ids)),
                   pb_utils.Tensor("class_scores", means.astype(np.float32))]
        return pb_utils.InferenceResponse(tensors)
"""


def write_all(repository: Path) -> None:
    write_rois(repository, "rois", on_error="blank")
    write_classifier(repository, "kinds", labelled=False, batch=BATCH)
    for name, source, outputs in (
        ("uneven", f"SLOW = False\n{_UNEVEN}", DETECTIONS),
        ("slow", f"SLOW = True\n{_UNEVEN}", DETECTIONS[-1:]),
    ):
        write_python(repository, name, source, inputs=ENCODED, outputs=outputs, batch=0)
    write_ensemble(
        repository,
        "torn",
        inputs=ENCODED,
        outputs=[DETECTIONS[1], DETECTIONS[-1]],
        steps=[
            ("uneven", {"encoded": "encoded"}, {"detection_boxes": "detection_boxes"}),
            ("slow", {"encoded": "encoded"}, {"status": "status"}),
        ],
    )
    routed = {"detect_model": "uneven", "classifiers": "*=rois+kinds"}
    write_cascade(repository, "on_uneven", routed)
    for name, ids in (("kinds_failing", "TYPE_INT32"), ("kinds_odd", "TYPE_STRING")):
        outputs = [tensor("class_ids", ids, [1]), tensor("class_scores", "TYPE_FP32", [1])]
        write_python(repository, name, _CLASSIFY, inputs=IMAGES, outputs=outputs, batch=BATCH)
        together = {"detect_model": "uneven", "classifiers": f"*=rois+{name}"}
        write_cascade(repository, f"on_{name}", together, more=batching(20_000))
    write_cascade(repository, "on_torn", {"detect_model": "torn", "max_in_flight": 2})
