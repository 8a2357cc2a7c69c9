"""Models of tracking with different settings, frames of sequences, and the ids that they get."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client

import endcap
from tests.support.damage import copy_model, parameter
from tests.support.track_scenes import Frame, track
from tests.triton.calls import grpc_inputs

ROWS = 40
IDLE_S = 2  # of track_idle
MAX_SEQUENCES = 70  # of track_few
# By model: what of the configuration of `track` is replaced, and by what.
CHANGES = {
    "track_idle": ("idle_microseconds: 10000000", f"idle_microseconds: {IDLE_S}000000"),
    "track_few": ('string_value: "1000"', f'string_value: "{MAX_SEQUENCES}"'),
    "track_ocsort": ("instance_group", f"{parameter('preset', 'ocsort')}\ninstance_group"),
    "bad_name": ('"max_lost_frames"', '"max_lost_frame"'),
    "bad_limit": ('string_value: "1000"', 'string_value: "0"'),
}


def write_all(repository: Path) -> None:
    """Adds to the shipped models others with the settings above, and more of `track`."""
    for name, (old, new) in CHANGES.items():
        config = copy_model("track", repository, name=name) / "config.pbtxt"
        text = config.read_text()
        assert old in text
        config.write_text(text.replace(old, new, 1))
    idle = copy_model("detect_track", repository, name="detect_track_idle") / "config.pbtxt"
    text = idle.read_text().replace('model_name: "track"', 'model_name: "track_idle"')
    text, inputs = re.subn(r',\n  {\n    name: "timestamp".*?\n  }', "", text, flags=re.S)
    text, maps = re.subn(r' +input_map { key: "timestamp" .*\n', "", text)
    assert (inputs, maps) == (1, 1)
    idle.write_text(text)  # as without time stamps
    direct = copy_model("track", repository, name="track_direct") / "config.pbtxt"
    head, _, rest = direct.read_text().partition("  oldest {")
    head += "  direct { max_queue_delay_microseconds: 1 }\n"
    direct.write_text((head + rest.partition("  }\n")[2]).replace("count: 1", "count: 5"))
    other = copy_model("track", repository, name="bad_scheduler") / "config.pbtxt"
    head, _, rest = other.read_text().partition("sequence_batching {")
    other.write_text(head + "dynamic_batching { }\n" + rest.partition("}\n}\n")[2])


def make_inputs(frame: Frame, timestamp: float | None = None) -> list[Any]:
    """The outputs of postprocess for a frame, in rows of which some do not count."""
    count = len(frame.scores)
    boxes = np.zeros((1, ROWS, 4), np.float32)
    scores = np.zeros((1, ROWS), np.float32)
    classes = np.zeros((1, ROWS), np.int32)
    boxes[0, :count] = frame.boxes
    scores[0, :count] = frame.scores
    classes[0, :count] = frame.class_ids
    return grpc_inputs(
        {
            "num_detections": np.array([[count]], np.int32),
            "detection_boxes": boxes,
            "detection_scores": scores,
            "detection_classes": classes,
        }
        | ({} if timestamp is None else {"timestamp": np.array([[timestamp]])})
    )


def send(
    client: grpc_client.InferenceServerClient,
    frame: Frame,
    sequence: int | str,
    *,
    model: str = "track",
    start: bool = False,
    end: bool = False,
    timestamp: float | None = None,
) -> tuple[list[int], int]:
    """The ids of the frame's detections, and its index."""
    result = client.infer(
        model,
        make_inputs(frame, timestamp),
        sequence_id=sequence,
        sequence_start=start,
        sequence_end=end,
        client_timeout=60,
    )
    ids = result.as_numpy("track_ids")
    assert ids.shape == (1, ROWS)
    assert ids.dtype == np.int64
    count = len(frame.scores)
    assert (ids[0, count:] == -1).all()
    return ids[0, :count].tolist(), int(result.as_numpy("frame_index")[0, 0])


def track_there(
    client: grpc_client.InferenceServerClient,
    scene: list[Frame],
    sequence: int | str,
    *,
    model: str = "track",
) -> list[list[int]]:
    """The ids of the frames of one sequence by the server."""
    tracked = []
    for number, frame in enumerate(scene):
        last = number == len(scene) - 1
        ids, index = send(client, frame, sequence, model=model, start=number == 0, end=last)
        assert index == number
        tracked.append(ids)
    return tracked


def track_here(scene: list[Frame], preset: str = "bytetrack") -> list[list[int]]:
    return track(scene, endcap.Tracker(preset))
