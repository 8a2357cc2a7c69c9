"""Every kind of bad input: INVALID_ARG with a message, and the server goes on."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.support import bad_jpegs, jpegs
from tests.triton.calls import infer, strings
from tests.triton.running_server import RunningServer
from tests.triton.served_models import ANCHORS, NUM_CLASSES

pytestmark = pytest.mark.both_variants

BAD_FILES = bad_jpegs.bad_files()
HEAD = np.zeros((1, 4 + NUM_CLASSES, ANCHORS), np.float32)


def refused(client, model: str, tensors: dict[str, np.ndarray]) -> str:
    with pytest.raises(InferenceServerException) as error:
        infer(client, model, tensors)
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT", error.value
    return str(error.value.message())


@pytest.mark.parametrize("bad", BAD_FILES, ids=str)
def test_bad_file(client, bad):
    message = refused(client, "pre_queue", {"encoded": strings([bad.data])})
    assert message.startswith(f"{bad.status.label}: ")
    assert len(message) > len(bad.status.label) + 20


def test_what_a_header_claims_is_not_allocated(client, server: RunningServer):
    good = strings([jpegs.photo_jpeg(50, 70)])
    infer(client, "pre_queue", {"encoded": good})
    before = server.resident_bytes()
    bomb = bad_jpegs.bomb(64250, 64250)
    assert len(bomb) < 6000
    for _ in range(8):
        refused(client, "pre_queue", {"encoded": strings([bomb])})
    # 64250 x 64250 RGB would be 12 GB; the margin is what the server itself may take meanwhile.
    assert server.peak_resident_bytes() - before < 100_000_000


@pytest.mark.parametrize(
    ("model", "tensors"),
    [
        ("pre", {"encoded": np.zeros((1, 100), np.uint8)}),
        ("pre", {"encoded": np.zeros((1, 1), np.float32)}),
        ("pre", {"encoded": strings([b"a", b"b"]).reshape(1, 2)}),
        ("pre", {"encoded": strings([b"a"]).reshape(1)}),
        ("pre", {"image": strings([b"a"])}),
        ("pre_bytes_single", {"encoded": np.zeros((2, 100), np.uint8)}),
        ("post", {"head": HEAD[:, :-1]}),
        ("post", {"head": HEAD.astype(np.float16)}),
        ("post", {"head": HEAD[0]}),
        ("post", {"head": HEAD, "geometry": np.ones((1, 7), np.float32)}),
        ("post", {"head": HEAD, "geometry": np.ones((2, 8), np.float32)}),
        ("post", {"head": HEAD, "status": np.zeros((1, 1), np.float32)}),
        ("post", {"geometry": np.ones((1, 8), np.float32)}),
    ],
)
def test_wrong_shape_dtype_or_name(client, model, tensors):
    message = refused(client, model, tensors)
    assert any(name in message for name in (*tensors, "'head'")), message


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_head_that_is_not_finite(client, value):
    head = HEAD.copy()
    head[0, 2, 7] = value
    head[0, 4, 7] = 0.9
    assert refused(client, "post", {"head": head}).startswith("invalid_argument: ")
