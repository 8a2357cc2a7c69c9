"""Models that wait, return their request, or respond several times."""

from __future__ import annotations

from pathlib import Path

from tests.triton.model_folders import ON_CPU, tensor, write_model, write_postprocess

BYTES = [tensor("texts", "TYPE_STRING", [-1])]
_BEHAVIOR = tensor("behavior", "TYPE_STRING", [1])
_RESPONSE = [tensor("response", "TYPE_STRING", [-1])]

# Responds with the parameters and the sequence step of the request, followed by `texts`. `behavior`
# sets how long it waits, or for which file; it stops when the request is cancelled.
_ECHO = """
import json, os, time
import numpy as np
import triton_python_backend_utils as pb_utils

def respond(request):
    texts = pb_utils.get_input_tensor_by_name(request, "texts").as_numpy()
    behavior = json.loads(pb_utils.get_input_tensor_by_name(request, "behavior").as_numpy()[0])
    pb_utils.Logger.log_warn(f"echo: {request.request_id()} begins")
    end = time.monotonic() + behavior.get("wait_s", 30 if "until" in behavior else 0)
    while time.monotonic() < end and not os.path.exists(behavior.get("until", "")):
        if request.is_cancelled():
            pb_utils.Logger.log_warn(f"echo: {request.request_id()} is cancelled")
            break
        time.sleep(0.01)
    received = {
        "parameters": json.loads(request.parameters()),
        "sequence": request.correlation_id(),
        "flags": request.flags(),
    }
    content = np.concatenate([np.array([json.dumps(received).encode()], object), texts])
    return pb_utils.InferenceResponse([pb_utils.Tensor("response", content)])

class TritonPythonModel:
    def execute(self, requests):
        return [respond(request) for request in requests]
"""

# Responds as often as `behavior` sets; with "final" the last response is the final one, else one
# without tensors.
_TALK = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "behavior").as_numpy()[0]
            behavior = json.loads(text)
            sender = request.get_response_sender()
            final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            for number in range(behavior["responses"]):
                content = np.array([str(number).encode()], object)
                response = pb_utils.InferenceResponse([pb_utils.Tensor("response", content)])
                last = behavior.get("final", False) and number == behavior["responses"] - 1
                sender.send(response, flags=final if last else 0)
            if "fail" in behavior:
                error = pb_utils.TritonError(behavior["fail"])
                sender.send(pb_utils.InferenceResponse(error=error), flags=final)
            elif not behavior.get("final", False):
                sender.send(flags=final)
"""


def write_all(repository: Path) -> None:
    """`echo`, with two places in its queue, the decoupled `talk`, and the classifier `classes`."""
    write_model(
        repository,
        "echo",
        backend="python",
        inputs=[*BYTES, _BEHAVIOR],
        outputs=_RESPONSE,
        more=f"{ON_CPU}\ndynamic_batching {{ default_queue_policy {{ max_queue_size: 2 }} }}",
        files={"1/model.py": _ECHO},
    )
    write_decoupled(repository)
    write_classes(repository)


def write_decoupled(repository: Path) -> None:
    """`talk`: responds as often as it is told to."""
    write_model(
        repository,
        "talk",
        backend="python",
        inputs=[_BEHAVIOR],
        outputs=_RESPONSE,
        more=f"{ON_CPU}\nmodel_transaction_policy {{ decoupled: true }}",
        files={"1/model.py": _TALK},
    )


def write_classes(repository: Path) -> None:
    """`classes`: logits FP32 [N,5]; it starts at once."""
    write_postprocess(
        repository,
        "classes",
        max_batch_size=8,
        parameters={"head": "classification", "num_classes": 5, "top_k": 3},
        inputs=[tensor("logits", "TYPE_FP32", [5])],
        outputs=[tensor("class_scores", "TYPE_FP32", [3]), tensor("class_ids", "TYPE_INT32", [3])],
    )
