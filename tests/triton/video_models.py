"""The shipped model `video` with other parameters, and a detector that fails on some frames."""

from __future__ import annotations

from pathlib import Path

from tests.support.damage import copy_model

PIPELINE = ("detect", "preprocess", "detector", "postprocess")
MAX_FRAMES = 12
MAX_SECONDS = 3
TIMEOUT_S = 2
MAX_FILE_BYTES = 400_000

# Frames that are 320 pixels wide fail, in others nothing is seen.
FAILING_DETECT = """
import time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.02)  # others come meanwhile
        return [self.respond(request) for request in requests]

    def respond(self, request):
        file = pb_utils.get_input_tensor_by_name(request, "encoded").as_numpy().reshape(-1)[0]
        if file.startswith(b"YUV4MPEG2 W320 "):
            error = pb_utils.TritonError("corrupt_image: it is 320 pixels wide")
            return pb_utils.InferenceResponse([], error)
        tensors = {"num_detections": np.zeros((1, 1), np.int32),
                   "detection_boxes": np.zeros((1, 4, 4), np.float32),
                   "detection_scores": np.zeros((1, 4), np.float32),
                   "detection_classes": np.zeros((1, 4), np.int32),
                   "detection_indices": np.full((1, 4), -1, np.int32),
                   "status": np.zeros((1, 1), np.int32)}
        return pb_utils.InferenceResponse([pb_utils.Tensor(n, a) for n, a in tensors.items()])
"""


def write_all(repository: Path, cameras: str, url_prefixes: str) -> None:
    """The shipped pipeline and `video`, and under other names:

    `video_urls` opens `cameras` and `url_prefixes`, `video_small` has low limits,
    `video_one` takes one request at a time, `video_absent` calls a model that is
    not there, and `video_failing` one that fails.
    """
    for model in PIPELINE:
        copy_model(model, repository)
    copy_model("video", repository)
    variant(repository, "video_urls", cameras=cameras, url_prefixes=url_prefixes)
    variant(
        repository,
        "video_small",
        url_prefixes=url_prefixes,
        max_frames=MAX_FRAMES,
        max_seconds=MAX_SECONDS,
        timeout_s=TIMEOUT_S,
        max_file_bytes=MAX_FILE_BYTES,
    )
    variant(repository, "video_one", url_prefixes=url_prefixes, max_videos=1)
    variant(repository, "video_absent", model="absent")
    variant(repository, "video_failing", model="failing_detect")
    folder = copy_model("detect", repository, name="failing_detect")
    config = (folder / "config.pbtxt").read_text().replace('"detect"', '"failing_detect"')
    config = config.replace('platform: "ensemble"', 'backend: "python"')
    config = config[: config.index("ensemble_scheduling")].replace("[ 300", "[ -1")
    config += "dynamic_batching { }\n"
    (folder / "config.pbtxt").write_text(config)
    (folder / "1").mkdir(exist_ok=True)
    (folder / "1" / "model.py").write_text(FAILING_DETECT)


def variant(repository: Path, name: str, **parameters: object) -> None:
    """Copy `video` under another name, with other parameters."""
    config = copy_model("video", repository, name=name) / "config.pbtxt"
    text = config.read_text().replace('name: "video"', f'name: "{name}"')
    for parameter, value in parameters.items():
        head, found, rest = text.partition(f'key: "{parameter}"')
        if found:
            start, end = rest.index('string_value: "') + 15, rest.index('" }')
            text = f"{head}{found}{rest[:start]}{value}{rest[end:]}"
        else:
            text += f'parameters {{ key: "{parameter}" value {{ string_value: "{value}" }} }}\n'
    config.write_text(text)
