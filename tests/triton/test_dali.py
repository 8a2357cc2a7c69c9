"""DALI pipelines on the server, beside the compiled backend: nobody can tell the two apart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

import endcap
from endcap.client import DetectionClient
from tests.support import bad_jpegs, cli_runs, jpegs
from tests.support.damage import SHIPPED, copy_model
from tests.support.doc_pages import ROOT, blocks
from tests.triton import dali_models
from tests.triton.bad_configs import BAD_PREPROCESS
from tests.triton.calls import Arrays, all_in_flight, infer, strings
from tests.triton.init_cases import CASES
from tests.triton.model_folders import tensor, write_preprocess
from tests.triton.running_server import RunningServer, run_server
from tests.triton.served_models import PREPROCESS

SAMPLES = [path.read_bytes() for path in sorted((SHIPPED / "detect" / "samples").glob("*.jpg"))]
IN_FLIGHT = 32
CORRUPT = 13
FILES = [jpegs.photo_jpeg(60 + 17 * i, 150 - 9 * i, seed=i) for i in range(4)]
CASES_OF_PREPROCESS = {
    "many": strings(FILES),
    "blank": strings([FILES[0], b"", FILES[1][:900], FILES[3]]),
    "single": strings(FILES[:1], batched=False),
    "bytes": np.frombuffer(FILES[1], np.uint8)[None],
    "uint8": strings(FILES),
    "half": strings(FILES),
    "classes": strings(FILES),
    "some": strings(FILES),
}


@pytest.fixture(scope="module", autouse=True)
def operators() -> Path:
    return dali_models.build_operators()


@pytest.fixture(scope="module")
def dali_server(
    operators: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("dali")
    dali_models.write_all(repository)
    write_from_network(repository, "compiled_end", "--preset", "ultralytics")
    write_from_network(repository, "dali_end", "--preset", "ultralytics", "--preprocess", "dali")
    with run_server(repository, "--model-control-mode=explicit", "--load-model=*") as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


def write_from_network(repository: Path, name: str, *options: str) -> None:
    """Adds what endcap init writes."""
    made = repository.with_name(f"{repository.name}_{name}")
    model = CASES["v8"].network.write(repository.with_name(f"{name}.onnx"))
    done = cli_runs.endcap("init", model, "-o", made, "--name", name, *options)
    assert done.exit_code == 0, done.stderr
    for folder in made.iterdir():
        if folder.is_dir():
            shutil.move(folder, repository / folder.name)


@pytest.fixture(scope="module")
def client(dali_server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(dali_server.grpc) as connection:
        yield connection


def assert_same(one: Arrays, other: Arrays) -> None:
    assert sorted(one) == sorted(other)
    for name, array in other.items():
        assert (one[name].dtype, one[name].shape) == (array.dtype, array.shape)
        assert one[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("batches", [[range(9)], [[i] for i in range(9)], [[3, 0], [8, 1, 5]]])
def test_detections_equal_those_of_detect_bit_for_bit(
    client: grpc_client.InferenceServerClient, batches: list[list[int]]
) -> None:
    for batch in batches:
        tensors = {"encoded": strings([SAMPLES[i] for i in batch])}
        compiled, dali = (infer(client, name, tensors) for name in ("detect", "detect_dali"))
        assert compiled["num_detections"].all()
        assert_same(dali, compiled)


@pytest.mark.parametrize("name", CASES_OF_PREPROCESS)
def test_tensors_equal_the_compiled_ones_bit_for_bit(
    client: grpc_client.InferenceServerClient, name: str
) -> None:
    tensors = {"encoded": CASES_OF_PREPROCESS[name]}
    compiled, dali = (infer(client, f"{variant}_{name}", tensors) for variant in ("pre", "dali"))
    assert_same(dali, compiled)


def test_the_same_configs(dali_server: RunningServer) -> None:
    for name in CASES_OF_PREPROCESS:
        compiled, dali = (dali_server.config(f"{variant}_{name}") for variant in ("pre", "dali"))
        for field in ("input", "output", "max_batch_size"):
            assert dali[field] == compiled[field], name


def message_of(
    client: grpc_client.InferenceServerClient, model: str, files: list[bytes]
) -> tuple[str, str]:
    with pytest.raises(InferenceServerException) as error:
        infer(client, model, {"encoded": strings(files)})
    return error.value.status(), error.value.message()


@pytest.mark.parametrize("bad", bad_jpegs.bad_files(), ids=str)
def test_the_same_words_for_a_bad_file_between_good_ones(
    client: grpc_client.InferenceServerClient, bad: bad_jpegs.BadFile
) -> None:
    files = [FILES[0], bad.data, FILES[1]]
    compiled, dali = (message_of(client, f"{variant}_many", files) for variant in ("pre", "dali"))
    assert dali == compiled
    tensors = {"encoded": strings(files)}
    compiled_rows, rows = (
        infer(client, f"{variant}_blank", tensors) for variant in ("pre", "dali")
    )
    assert_same(rows, compiled_rows)
    assert rows["status"][:, 0].tolist() == [0, int(bad.status), 0]


def test_the_ensembles_fail_alike(client: grpc_client.InferenceServerClient) -> None:
    files = [SAMPLES[0], SAMPLES[1][: len(SAMPLES[1]) // 2]]
    compiled, dali = (message_of(client, name, files)[1] for name in ("detect", "detect_dali"))
    assert dali.replace("'detect_dali'", "'detect'") == compiled
    assert "corrupt_image: image index 1 of 2: " in dali


def test_32_requests_in_flight_with_one_corrupt(
    client: grpc_client.InferenceServerClient, dali_server: RunningServer
) -> None:
    files = [jpegs.photo_jpeg(40 + 13 * i, 300 - 7 * i, seed=i) for i in range(IN_FLIGHT)]
    files[CORRUPT] = files[CORRUPT][: len(files[CORRUPT]) // 2]
    before = dali_server.executions("dali_many")
    responses = all_in_flight(client, "dali_many", [{"encoded": strings([file])} for file in files])
    assert dali_server.executions("dali_many") - before < IN_FLIGHT
    sizes = [each["batch_size"] for each in dali_server.statistics("dali_many")["batch_stats"]]
    assert max(sizes) > 4
    for i, (file, response) in enumerate(zip(files, responses, strict=True)):
        if i == CORRUPT:
            assert isinstance(response, InferenceServerException)
            assert response.message().startswith("corrupt_image: ")
            continue
        assert isinstance(response, dict), response
        alone = endcap.preprocess(file, **PREPROCESS)
        assert response["images"].tobytes() == alone.images.tobytes(), i
        assert response["geometry"].tobytes() == alone.geometry.tobytes(), i


def test_what_init_writes_responds_as_with_the_compiled_end(
    client: grpc_client.InferenceServerClient, dali_server: RunningServer
) -> None:
    tensors = {"encoded": strings(FILES)}
    compiled, dali = (infer(client, name, tensors) for name in ("compiled_end", "dali_end"))
    assert compiled["num_detections"].all()
    assert_same(dali, compiled)
    assert dali_server.config("dali_end_preprocess")["model_warmup"]


def test_the_ensemble_for_nvidias_backend_takes_plain_bytes(
    client: grpc_client.InferenceServerClient,
    dali_server: RunningServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the page's program, by an array that is filled up with zeros, and by endcap's client."""
    (tmp_path / "photo.jpg").write_bytes(SAMPLES[0])
    monkeypatch.chdir(tmp_path)
    (page,) = [block for block in blocks(ROOT / "docs" / "dali_triton.md") if "UINT8" in block.text]
    program = page.text.replace("127.0.0.1:8001", dali_server.grpc)
    exec(compile(program.replace('"detect"', '"bytes_detect"'), "page", "exec"), {})
    expected = infer(client, "detect", {"encoded": strings(SAMPLES[:2])})
    assert capsys.readouterr().out == f"{expected['num_detections'][:1]}\n"

    longest = max(map(len, SAMPLES[:2]))
    rows = [np.frombuffer(file.ljust(longest, b"\0"), np.uint8) for file in SAMPLES[:2]]
    assert_same(infer(client, "bytes_detect", {"encoded": np.stack(rows)}), expected)

    with DetectionClient(f"grpc://{dali_server.grpc}", model="bytes_detect") as detector:
        results = detector.detect(SAMPLES[:2])
    assert [len(result.predictions) for result in results] == expected["num_detections"][
        :, 0
    ].tolist()


# One of each kind; test_python_settings.py has all of them.
REFUSED = ("unknown_parameter", "images_of_other_size")


@pytest.fixture(scope="module")
def refusing_server(
    tmp_path_factory: pytest.TempPathFactory, operators: Path
) -> Iterator[RunningServer]:
    """Models that do not load."""
    repository = tmp_path_factory.mktemp("refused")
    for name in REFUSED:
        write_preprocess(
            repository, name, variant="dali", max_batch_size=4, **BAD_PREPROCESS[name][0]
        )
    for name, parameters in (("maybe", {"optional": "maybe"}), ("good", {"optional": "false"})):
        write_preprocess(repository, name, variant="dali", parameters=parameters)
    inputs = [tensor("encoded", "TYPE_STRING", [1]), tensor("rois", "TYPE_FP32", [-1, 4])]
    write_preprocess(repository, "regions", variant="dali", inputs=inputs)
    with run_server(repository) as server:
        yield server


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        *((name, BAD_PREPROCESS[name][1]) for name in REFUSED if name != "unknown_parameter"),
        ("unknown_parameter", ["'sise'", "there are threads, max_queue_cost, preset, size"]),
        ("maybe", ["optional is neither true nor false; give one"]),
        ("regions", ["input 'rois'", "preprocess_rois"]),
    ],
)
def test_a_load_fails_with_an_error_message(
    refusing_server: RunningServer, name: str, texts: list[str]
) -> None:
    index = refusing_server.index()
    assert index[name]["state"] == "UNAVAILABLE"
    for text in texts:
        assert text in index[name]["reason"]
    assert index["good"]["state"] == "READY"


def test_a_load_without_the_operators_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_preprocess(tmp_path / "models", "pre", variant="dali")
    with run_server(tmp_path / "models") as server:
        reason = server.index()["pre"]["reason"]
    assert "operators are not built" in reason
    assert "`endcap dali build`" in reason


def test_configs_for_nvidias_backend_are_read_by_name(tmp_path: Path) -> None:
    """As far as a server without that backend goes: it has read them, and looks for the backend."""
    for model in ("preprocess", "preprocess_dali"):
        copy_model(model, tmp_path)
    with run_server(tmp_path, "--model-config-name=dali") as server:
        index = server.index()
    assert index["preprocess"]["state"] == "READY"
    assert "backend 'dali'" in index["preprocess_dali"]["reason"]
