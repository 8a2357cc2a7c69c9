"""A Python model with the ensemble's outputs and known responses, one kind for each first byte.

J, 0xff of a JPEG, two rows, and E none; B a blank image's status; C an error; S sleeps as many
seconds as follow, or 3; W makes the file FILE.begun, of the path FILE that follows, and waits for
FILE. A frame in Y4M has two rows, or an error where its first pixel is white. The index of the
first row is the image's length, by which tests tell responses apart.
"""

BATCH_LIMIT = 4
CONFIG = f"""
backend: "python"
input [ {{ name: "encoded" data_type: TYPE_STRING dims: [ 1 ] }} ]
output [
  {{ name: "num_detections" data_type: TYPE_INT32 dims: [ 1 ] }},
  {{ name: "detection_boxes" data_type: TYPE_FP32 dims: [ 3, 4 ] }},
  {{ name: "detection_scores" data_type: TYPE_FP32 dims: [ 3 ] }},
  {{ name: "detection_classes" data_type: TYPE_INT32 dims: [ 3 ] }},
  {{ name: "detection_indices" data_type: TYPE_INT32 dims: [ 3 ] }},
  {{ name: "status" data_type: TYPE_INT32 dims: [ 1 ] }}
]
max_batch_size: {BATCH_LIMIT}
instance_group [ {{ count: 2 kind: KIND_CPU }} ]
parameters {{ key: "labels" value {{ string_value: "circle, square" }} }}
"""
HELPERS = """
import json, os, time
import numpy as np
import triton_python_backend_utils as pb_utils

def encoded(request):
    return pb_utils.get_input_tensor_by_name(request, "encoded").as_numpy()

def response(tensors):
    return pb_utils.InferenceResponse([pb_utils.Tensor(*each) for each in tensors.items()])

def corrupt():
    message = "corrupt_image: image 0 is not a JPEG"
    error = pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG)
    return pb_utils.InferenceResponse([], error)
"""
# Without batches where the configuration says so. Of a model with sequences, the first score says
# which image of its sequence it is, in hundredths, with 50 more for the last.
MODEL = f"""{HELPERS}
def is_corrupt(file):
    return file[:1] == b"C" or file[:1] == b"Y" and file.split(b"\\n", 2)[2][0] > 200

def wait(file):
    if file[:1] == b"S":
        time.sleep(float(file[1:] or 3))
    if file[:1] == b"W":
        end, deadline = file[1:].decode(), time.monotonic() + 30
        open(end + ".begun", "w").close()
        while time.monotonic() < deadline and not os.path.exists(end):
            time.sleep(0.01)

def rows(files, scores):
    n = len(files)
    kept = [2 if file[:1] in b"\\xffYW" else 0 for file in files]
    boxes = np.zeros((n, 3, 4), np.float32)
    boxes[:, 0], boxes[:, 1] = [8, 8, 40, 32], [10.5, 12.25, 20, 30]
    return {{"num_detections": np.array(kept, np.int32)[:, None],
            "detection_boxes": boxes,
            "detection_scores": np.array([scores] * n, np.float32),
            "detection_classes": np.array([[1, 7, 0]] * n, np.int32),
            "detection_indices": np.array([[len(file), 2, -1] for file in files], np.int32),
            "status": np.array([[2 * (file[:1] == b"B")] for file in files], np.int32)}}

class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.has_batches = config["max_batch_size"] > 0
        self.has_sequences = "sequence_batching" in config
        self.counts = {{}}

    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        array = encoded(request)
        files = [*array[:, 0]] if self.has_batches else [array.tobytes()]
        for file in files:
            wait(file)
        if any(map(is_corrupt, files)):
            return corrupt()
        tensors = rows(files, self.count(request) if self.has_sequences else (0.75, 0.5, 0))
        return response({{n: each if self.has_batches else each[0] for n, each in tensors.items()}})

    def count(self, request):
        sequence, flags = request.correlation_id(), request.flags()
        if flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self.counts[sequence] = 0
        self.counts[sequence] += 1
        is_last = bool(flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)
        return (self.counts[sequence] / 100 + 0.5 * is_last, 0, 0)
"""
