"""Networks run by endcap_onnx on the real server."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
from tritonclient.utils import InferenceServerException

from tests.support.onnx_heads import network
from tests.triton.calls import Arrays, all_in_flight, grpc_inputs, infer
from tests.triton.model_folders import batching, tensor
from tests.triton.onnx_models import (
    DTYPES,
    KEEPS_FREED_MEMORY,
    SAMPLE,
    adding,
    identity,
    multiplying,
    picking,
    write_network,
)
from tests.triton.running_server import RunningServer, wait_for

CPUS = len(os.sched_getaffinity(0))
MERGE = {"merge_requests": 1}
# Long enough for requests that are sent together to come together.
TOGETHER_US = 300_000
WARM_UP = """
model_warmup {
  name: "zeros" batch_size: 2 count: 3
  inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }
}
"""
pytestmark = pytest.mark.usefixtures("server")


# Of a number without dimensions.
SCALARS = network("(float x) => (float doubled)", "doubled = Add(x, x)")
# places [2, K] of the numbers that are not 0: K depends on the data.
FINDING = network("(float[rows,columns] x) => (int64[2,found] places)", "places = NonZero(x)")
TWO_OUTPUTS = network(
    "(float[n,columns] x) => (float[n,columns] sum, float[n,columns] product)",
    "sum = Add(x, x) product = Mul(x, x)",
)
# x and y, one behind the other in each row.
JOINING = network(
    "(float[n,left] x, float[n,right] y) => (float[n,both] joined)",
    "joined = Concat<axis=1>(x, y)",
)


def write_all(repository: Path) -> None:
    together = {"max_batch_size": 8, "parameters": MERGE, "more": batching(TOGETHER_US)}
    write_network(repository, "adding", adding(1))
    write_network(repository, "fixed", adding(1, [2, 3]))
    write_network(repository, "types", identity(DTYPES, ["batch", 2, 3]), max_batch_size=8)
    write_network(repository, "types_merged", identity(DTYPES, ["batch", "n"]), **together)
    write_network(repository, "any_size", adding(1, ["batch", 3, "height", "width"]))
    write_network(repository, "scalars", SCALARS)
    write_network(repository, "vectors", adding(1, ["batch"]), max_batch_size=8)
    write_network(repository, "finding", FINDING)
    write_network(repository, "two_outputs", TWO_OUTPUTS)
    write_network(repository, "joining", JOINING, **together)
    write_network(repository, "picking", picking(), max_batch_size=8, more=batching(TOGETHER_US))
    write_network(repository, "picking_merged", picking(), **together)
    write_network(repository, "warmed", adding(1), max_batch_size=8, more=WARM_UP)
    both = "version_policy { all {} }"
    write_network(repository, "versions", adding(1), max_batch_size=8, more=both)
    write_network(repository, "versions", adding(2), file="2/model.onnx")
    named = 'default_model_filename: "net.onnx"'
    write_network(repository, "other_file", adding(5), file="1/net.onnx", more=named)
    write_network(
        repository,
        "given",
        adding(1),
        max_batch_size=3,
        inputs=[tensor("x", "TYPE_FP32", [-1])],
        outputs=[tensor("y", "TYPE_FP32", [4])],
        parameters={
            **{"intra_op_thread_count": 1, "inter_op_thread_count": 1, "execution_mode": 1},
            "enable_mem_pattern": 0,
            "memory.enable_memory_arena_shrinkage": "cpu:0",
            "session.use_device_allocator_for_initializers": 1,
            "session.intra_op.allow_spinning": 0,
        },
        more="optimization { graph { level: -1 } }",
    )
    one = {"max_batch_size": 1, "parameters": {"max_concurrent_runs": 1}}
    write_network(repository, "slow", multiplying(640, 50, ["batch", 640, 640]), **one)
    write_network(repository, "busy", multiplying(1024, 40), max_batch_size=1)
    write_network(repository, "quick", multiplying(64, 4), max_batch_size=8)
    sample = SAMPLE.read_bytes()
    write_network(repository, "sample", sample, max_batch_size=16)
    write_network(repository, "sample_merged", sample, **{**together, "max_batch_size": 4})


@pytest.fixture(scope="module")
def server(compiled_server: RunningServer) -> RunningServer:
    before = set(compiled_server.index())
    write_all(compiled_server.repository)
    compiled_server.load(*(set(compiled_server.index()) - before))
    return compiled_server


def runs(server: RunningServer, model: str) -> float:
    return server.metric("endcap_onnx_runs_total", model=model)


def failed(server: RunningServer, model: str, reason: str) -> float:
    return server.metric("endcap_onnx_failed_total", model=model, reason=reason)


def floats(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).random(shape, np.float32)


def make_values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> npt.NDArray[Any]:
    random = np.random.default_rng(seed)
    if dtype == "object":
        texts = [b"", b"plain", "ö…".encode(), b"zero \0 inside", bytes(range(256)) * 40]
        array = np.empty(shape, np.object_)
        array.flat = [texts[int(i)] for i in random.integers(0, len(texts), array.size)]
        return array
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return random.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def arrays_of_all_types(shape: tuple[int, ...], seed: int = 0) -> Arrays:
    return {dtype: make_values(dtype, shape, seed + i) for i, dtype in enumerate(DTYPES)}


def assert_unchanged(response: object, sent: Mapping[str, npt.NDArray[Any]]) -> None:
    assert isinstance(response, dict), response
    for dtype, array in sent.items():
        given = response[f"{dtype}_out"]
        assert given.dtype == array.dtype
        assert given.shape == array.shape
        assert given.tolist() == array.tolist(), dtype


def test_every_element_type_comes_through(client) -> None:
    for count in (1, 5):
        sent = arrays_of_all_types((count, 2, 3), seed=count)
        assert_unchanged(infer(client, "types", sent), sent)


def test_every_element_type_is_merged_and_divided_again(client, server) -> None:
    before = runs(server, "types_merged")
    sent = [arrays_of_all_types((count, 2), seed=count) for count in (1, 3, 2)]
    for response, request in zip(all_in_flight(client, "types_merged", sent), sent, strict=True):
        assert_unchanged(response, request)
    assert runs(server, "types_merged") < before + len(sent)


def test_invalid_bool_fails_its_request(client) -> None:
    sent = arrays_of_all_types((1, 2, 3))
    inputs = grpc_inputs(sent)
    (flags,) = (each for each in inputs if each.name() == "bool")
    flags.set_data_from_numpy(np.full((1, 2, 3), 7, np.uint8).view(np.bool_))
    with pytest.raises(InferenceServerException, match="input 'bool' is BOOL and has a byte"):
        client.infer("types", inputs)


def test_config_is_completed_from_the_network(server) -> None:
    config = server.config("any_size")
    (given,), (made,) = config["input"], config["output"]
    assert (given["name"], given["data_type"], given["dims"]) == ("x", "TYPE_FP32", [3, -1, -1])
    assert (made["name"], made["data_type"], made["dims"]) == ("y", "TYPE_FP32", [3, -1, -1])
    assert config["max_batch_size"] == 4
    assert "dynamic_batching" in config
    types = server.config("types")["input"]
    assert [each["name"] for each in types] == list(DTYPES)
    assert [each["dims"] for each in types] == [[2, 3]] * len(DTYPES)
    assert {each["name"]: each["data_type"] for each in types} == {
        **{"bool": "TYPE_BOOL", "object": "TYPE_STRING"},
        **{f"float{bits}": f"TYPE_FP{bits}" for bits in (16, 32, 64)},
        **{f"int{bits}": f"TYPE_INT{bits}" for bits in (8, 16, 32, 64)},
        **{f"uint{bits}": f"TYPE_UINT{bits}" for bits in (8, 16, 32, 64)},
    }


def test_fixed_shapes_and_what_the_config_gives_stay(server, client) -> None:
    for model, batch_size, shape in (("fixed", 0, (2, 3)), ("given", 3, (3, 4))):
        config = server.config(model)
        assert config["max_batch_size"] == batch_size
        assert "dynamic_batching" not in config
        x = floats(*shape)
        assert np.array_equal(infer(client, model, {"x": x})["y"], x + 1)
    assert server.config("fixed")["input"][0]["dims"] == [2, 3]
    assert server.metric("endcap_onnx_shared_runs_total", model="given") == 0


def test_scalars_and_vectors(server, client) -> None:
    assert server.config("scalars")["input"][0]["dims"] == [1]
    assert infer(client, "scalars", {"x": np.float32([3])})["doubled"].tolist() == [6]
    assert server.config("vectors")["input"][0]["dims"] == [1]
    response = infer(client, "vectors", {"x": np.float32([[1], [2], [3]])})["y"]
    assert response.tolist() == [[2], [3], [4]]


def test_shapes_may_differ_between_requests(client) -> None:
    shapes = [(1, 3, 5, 7), (2, 3, 4, 4), (1, 3, 1, 9), (1, 3, 0, 4), (4, 3, 33, 65)]
    sent = [{"x": floats(*shape, seed=i)} for i, shape in enumerate(shapes)]
    for response, request in zip(all_in_flight(client, "any_size", sent), sent, strict=True):
        assert isinstance(response, dict), response
        assert np.array_equal(response["y"], request["x"] + 1)
        assert response["y"].shape == request["x"].shape


def test_an_output_whose_shape_depends_on_the_data(client) -> None:
    x = np.float32([[0, 1, 0], [2, 0, 3]])
    assert infer(client, "finding", {"x": x})["places"].tolist() == [[0, 1, 1], [1, 0, 2]]
    assert infer(client, "finding", {"x": np.zeros((2, 2), np.float32)})["places"].shape == (2, 0)


def test_only_the_outputs_that_are_requested(client) -> None:
    x = floats(2, 5)
    assert list(infer(client, "two_outputs", {"x": x}, outputs=["product"])) == ["product"]
    both = infer(client, "two_outputs", {"x": x}, outputs=["product", "sum"])
    assert np.array_equal(both["sum"], x + x)
    assert np.array_equal(both["product"], x * x)


def test_merged_requests_of_several_shapes_get_their_own_rows(client, server) -> None:
    before = runs(server, "joining")
    shapes = [(1, 2, 3), (3, 2, 3), (2, 2, 3), (1, 4, 1), (2, 4, 1)]
    sent = [
        {"x": floats(count, left, seed=i), "y": floats(count, right, seed=i + 50)}
        for i, (count, left, right) in enumerate(shapes)
    ]
    for response, request in zip(all_in_flight(client, "joining", sent), sent, strict=True):
        assert isinstance(response, dict), response
        assert np.array_equal(response["joined"], np.hstack([request["x"], request["y"]]))
    assert runs(server, "joining") < before + len(sent)


@pytest.mark.parametrize("model", ["picking", "picking_merged"])
def test_a_request_that_fails_leaves_its_neighbours_alone(client, server, model) -> None:
    images = server.metric("endcap_onnx_images_total", model=model)
    failures = failed(server, model, "invalid_argument")
    sent = [{"index": np.int64([[i]])} for i in (0, 9, 3, -77, 1)]
    responses = all_in_flight(client, model, sent)
    good = [each["picked"].item() for each in responses if isinstance(each, dict)]
    assert good == [10, 40, 20]
    for place in (1, 3):
        error = responses[place]
        assert isinstance(error, InferenceServerException)
        assert "invalid_argument: " in str(error)
        assert "indices element out of data bounds" in str(error)
    assert server.metric("endcap_onnx_images_total", model=model) == images + 3
    assert failed(server, model, "invalid_argument") == failures + 2


def test_statistics_and_metrics_count_items(client, server) -> None:
    def counts() -> tuple[int, int, int, float]:
        found = server.statistics("adding")
        images = server.metric("endcap_onnx_images_total", model="adding")
        inferences, executions = int(found["inference_count"]), int(found["execution_count"])
        return inferences, executions, server.requests("adding"), images

    before = counts()
    for count in (1, 4, 2):
        infer(client, "adding", {"x": floats(count, 4)})
    wait_for(lambda: counts()[2] == before[2] + 3)
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [7, 3, 3, 7]
    compute = server.statistics("adding")["inference_stats"]["compute_infer"]
    assert int(compute["ns"]) > 0


def test_warm_up_versions_and_file_name(client, server) -> None:
    assert runs(server, "warmed") >= 3
    x = floats(2, 4)
    for version, number in (("1", 1), ("2", 2), ("", 2)):
        response = infer(client, "versions", {"x": x}, model_version=version)
        assert np.array_equal(response["y"], x + np.float32(number))
    assert server.metric("endcap_onnx_runs_total", model="versions", version="1") == 1
    assert server.metric("endcap_onnx_runs_total", model="versions", version="2") == 2
    assert np.array_equal(infer(client, "other_file", {"x": x})["y"], x + 5)


@pytest.fixture(scope="module")
def pictures() -> npt.NDArray[np.float32]:
    return floats(4, 3, 640, 640)


@pytest.fixture(scope="module")
def expected(pictures: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What the sample network makes of each, by the same library in this process."""
    session = onnxruntime.InferenceSession(str(SAMPLE), providers=["CPUExecutionProvider"])
    heads = [session.run(None, {"images": pictures[i : i + 1]})[0] for i in range(len(pictures))]
    return np.concatenate(heads)


@pytest.mark.parametrize("model", ["sample", "sample_merged"])
def test_the_sample_network_gives_the_bytes_of_onnx_runtime(
    client, model, pictures, expected
) -> None:
    """One at a time, all at the same time, and as a batch: threads and batches change nothing."""
    singles = [{"images": pictures[i : i + 1]} for i in range(len(pictures))]
    responses = [infer(client, model, single) for single in singles]
    responses += all_in_flight(client, model, singles)
    heads = [response["head"].tobytes() for response in responses]
    assert heads == 2 * [head.tobytes() for head in expected]
    assert infer(client, model, {"images": pictures})["head"].tobytes() == expected.tobytes()


@pytest.mark.skipif(CPUS < 2, reason="one CPU has no threads to share")
def test_a_run_alone_has_all_threads_and_runs_together_have_one_each(client, server) -> None:
    def shared() -> float:
        return server.metric("endcap_onnx_shared_runs_total", model="busy")

    sent = [{"x": floats(1, 128, 1024, seed=i)} for i in range(3)]
    before = shared()
    alone = [infer(client, "busy", each)["y"].tobytes() for each in sent]
    assert shared() == before + len(sent)
    responses = all_in_flight(client, "busy", 5 * sent)
    # The first one is alone, and the last one may be; runs take far longer than the gaps between.
    assert shared() <= before + len(sent) + 3
    assert [response["y"].tobytes() for response in responses] == 5 * alone


@KEEPS_FREED_MEMORY
def test_memory_stays_flat_over_many_requests(client, server) -> None:
    x = floats(2, 8, 64)

    def send_request(count: int) -> None:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in pool.map(lambda _: infer(client, "quick", {"x": x}), range(count)):
                pass

    def growth() -> int:
        before = server.resident_bytes()
        send_request(4000)
        return server.resident_bytes() - before

    send_request(1000)
    # On a busy machine more threads are at work at once than before, and keep their own memory.
    assert any(growth() < 4 << 20 for _ in range(3))


def test_cancelled_requests_get_no_response(client, server) -> None:
    """The backend takes a request at work, one that waits, and one that wants to wait."""
    x, taken = np.zeros((1, 640, 640), np.float32), 3

    def images() -> float:
        return server.metric("endcap_onnx_images_total", model="slow")

    before = runs(server, "slow"), failed(server, "slow", "cancelled"), images()
    calls = [
        client.async_infer(
            "slow", grpc_inputs({"x": x}), lambda result, error: None, request_id=f"left-{i}"
        )
        for i in range(taken + 4)
    ]
    pending = "nv_inference_pending_request_count"
    wait_for(lambda: server.metric(pending, model="slow") == 4)  # so one is at work
    for call in calls:
        call.cancel()
    infer(client, "slow", {"x": x})
    gone = failed(server, "slow", "cancelled") - before[1]
    done = images() - before[2]  # those that ended before the cancellation, and the last one
    assert gone + done == len(calls) + 1
    assert gone >= len(calls) - 2
    assert runs(server, "slow") - before[0] <= done + 1  # those that waited were never run
    (line,) = wait_for(lambda: server.log_lines("'left-6'"))
    assert "the request was cancelled" in line
