"""endcap tune: the texts of config.pbtxt, what may be turned, and what is written."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import assert_error_message, endcap
from echo_model import write_model

from endcap._system.locked_file import lock_folder
from endcap.errors import InvalidArgumentError
from endcap.tools.config_changes import diff, write
from endcap.tools.tune.settings import (
    CLIENT,
    Change,
    Pipeline,
    combine,
    describe,
    find_knobs,
    read_pipeline,
)
from endcap.tools.tune.state import identify
from endcap.triton.config_edits import set_field
from endcap.triton.errors import ServerError
from endcap.triton.model_config import read_lines

REPOSITORY = Path(__file__).resolve().parents[3] / "model_repository"
MODELS = ("detect", "detector", "postprocess", "preprocess")

DELAY = ("dynamic_batching", "max_queue_delay_microseconds")
PREFERRED = ("dynamic_batching", "preferred_batch_size")
COUNT = ("instance_group", "count")


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ("max_batch_size: 8 # few\n", ("max_batch_size",), "4", "max_batch_size: 4 # few\n"),
        ("max_batch_size:8,name:'a'", ("max_batch_size",), "4", "max_batch_size:4,name:'a'"),
        ("name: 'a' # last", ("max_batch_size",), "4", "name: 'a' # last\n\nmax_batch_size: 4\n"),
        ("a: - 1 b: 2", ("a",), "3", "a: 3 b: 2"),
        ("a: 'x' \"y\" b: 2", ("b",), "3", "a: 'x' \"y\" b: 3"),
        ("dynamic_batching { }\n", DELAY, "5", f"dynamic_batching {{ {DELAY[1]}: 5 }}\n"),
        (
            "dynamic_batching {\n  # why\n}\nb: 1\n", DELAY, "5",
            f"dynamic_batching {{\n  # why\n  {DELAY[1]}: 5\n}}\nb: 1\n",
        ),
        (
            "dynamic_batching: <\r\n>\r\n", DELAY, "5",
            f"dynamic_batching: <\r\n  {DELAY[1]}: 5\r\n>\r\n",
        ),
        ("a: 1\n", DELAY, "5", f"a: 1\n\ndynamic_batching {{ {DELAY[1]}: 5 }}\n"),
        (
            "dynamic_batching { preferred_batch_size: 2 # two\n preferred_batch_size: 4 }",
            PREFERRED, "[ 8 ]", "dynamic_batching { preferred_batch_size: [ 8 ] # two\n  }",
        ),
        ("instance_group [ { kind: KIND_CPU } ]", COUNT, "2",
         "instance_group [ { kind: KIND_CPU count: 2 } ]"),
        ("instance_group { count: 1 } instance_group { count: 4 }", COUNT, "2",
         "instance_group { count: 2 } instance_group { count: 4 }"),
        ("a { count: 1 }", COUNT, "2", "a { count: 1 }\n\ninstance_group { count: 2 }\n"),
        ("", ("max_batch_size",), "4", "\nmax_batch_size: 4\n"),
    ],
)  # fmt: skip
def test_a_field_is_set_and_the_rest_stays(
    before: str, path: tuple[str, ...], value: str, after: str
) -> None:
    assert set_field(before, path, value) == after
    assert set_field(after, path, value) == after
    read_lines(after)


def test_a_cascade_is_tuned_with_what_it_calls(tmp_path: Path) -> None:
    cascade = read_pipeline(REPOSITORY, "cascade")
    names = {model.name for model in cascade.models}
    assert names >= {"cascade", "detect", "detector", "preprocess", "postprocess", "classifier"}
    assert cascade.calling == ()
    assert set(cascade.served) <= names
    knobs = [knob.name for knob in find_knobs(cascade, cpus=2, batch=1, shared_memory=True)]
    assert "instances of detector" in knobs
    assert "threads of preprocess" in knobs
    in_python = read_pipeline(REPOSITORY, "cascade_bls")
    assert "cascade_bls" in in_python.calling
    assert in_python.served == ()
    assert {model.name for model in in_python.models} >= {"detector", "classifier"}


def test_a_parameter_named_classifiers_may_be_of_a_models_own(tmp_path: Path) -> None:
    write_model(
        tmp_path,
        "detect",
        'backend: "python" parameters { key: "classifiers" value { string_value: "3" } }',
        "",
    )
    assert read_pipeline(tmp_path, "detect").calling == ("detect",)


@pytest.mark.parametrize("model", ["cascade_bls", "detect"])
def test_measurements_are_of_all_that_is_served(tmp_path: Path, model: str) -> None:
    shutil.copytree(REPOSITORY, tmp_path / "models")
    program = Path(sys.executable)

    def repository() -> str:
        pipeline = read_pipeline(tmp_path / "models", model)
        return identify(pipeline.folders, [b"image"], program, {})["the repository"]

    before = repository()
    with (tmp_path / "models" / "detector" / "config.pbtxt").open("a") as stream:
        stream.write("# changed\n")
    after = repository()
    assert after != before
    with (tmp_path / "models" / "detect_bls" / "config.pbtxt").open("a") as stream:
        stream.write("# changed\n")
    assert (repository() != after) == (model == "cascade_bls")


@pytest.mark.parametrize("text", ["a { b: 1", "a [ { b: 1 ]", "a { b: 1 } }", "a: 'x", "a:", "a"])
def test_what_does_not_close_is_an_error(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="close"):
        set_field(text, ("a", "b"), "2")


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    for name in MODELS:
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    return read_pipeline(tmp_path, "detect")


def test_a_pipeline_is_an_ensemble_with_its_steps(pipeline: Pipeline) -> None:
    assert tuple(model.name for model in pipeline.models) == MODELS
    assert pipeline.served == ("detect",)
    with pytest.raises(ServerError, match="has no model 'other'"):
        read_pipeline(pipeline.repository, "other")


def test_models_that_may_call_others_are_served_with_the_whole_repository() -> None:
    assert read_pipeline(REPOSITORY, "cascade_bls").served == ()


def test_knobs_turn_what_the_models_have(pipeline: Pipeline) -> None:
    knobs = find_knobs(pipeline, cpus=4, batch=2, shared_memory=True)
    changes = {str(change) for knob in knobs for each in knob.alternatives for change in each}
    assert {
        "detector intra_op_thread_count 1", "detector intra_op_thread_count 4",
        "preprocess threads 2", "preprocess threads 8", "detector instances 2",
        "detector merge_requests 1", "detector preferred_batch_size [ 4 ]",
        "postprocess max_queue_delay_microseconds 0", "detect max_batch_size 4",
        "client shared_memory system",
    } <= changes  # fmt: skip
    # All CPUs are the default, and clients send two images at once.
    assert not changes & {"preprocess threads 4", "detect max_batch_size 1", "detect threads 1"}
    without = find_knobs(pipeline, cpus=4, batch=2, shared_memory=False)
    assert len(without) == len(knobs) - 1


def test_a_change_to_the_value_in_force_is_none(pipeline: Pipeline) -> None:
    fewer = Change("preprocess", "max_batch_size", "4")
    assert combine((), [fewer], pipeline) == (fewer,)
    assert combine((fewer,), [fewer._replace(value="16")], pipeline) == ()
    assert describe(()) == "as it is"
    both = combine((), [fewer, Change("detect", "max_batch_size", "4")], pipeline)
    assert describe(both) == "detect+preprocess max_batch_size 4"


CHANGES = (
    Change(CLIENT, "shared_memory", "system"),
    Change("detector", "instances", "2"),
    Change("detector", "intra_op_thread_count", "1"),
    Change("preprocess", "threads", "1"),
)


def texts_of(pipeline: Pipeline) -> dict[str, str]:
    return {model.name: model.file.read_text() for model in pipeline.models}


def test_written_files_keep_all_other_text(pipeline: Pipeline) -> None:
    before = texts_of(pipeline)
    shown = diff(pipeline.changes(CHANGES)).splitlines()
    assert texts_of(pipeline) == before
    files = write(pipeline.changes(CHANGES))
    after = texts_of(pipeline)
    assert files == [str(pipeline.repository / n / "config.pbtxt") for n in MODELS[1::2]]
    assert {name for name in before if before[name] != after[name]} == {"detector", "preprocess"}
    for name in ("detector", "preprocess"):
        assert after[name].startswith(before[name])  # all is added at the end
    assert not [line for line in shown if line.startswith("-") and not line.startswith("---")]
    again = read_pipeline(pipeline.repository, "detect")
    assert combine((), CHANGES[1:], again) == ()


def test_a_file_that_was_changed_meanwhile_is_left_alone(pipeline: Pipeline) -> None:
    file = pipeline.repository / "preprocess" / "config.pbtxt"
    file.write_text(file.read_text() + "# mine\n")
    before = texts_of(pipeline)
    with pytest.raises(ServerError, match=r"preprocess/config.pbtxt was changed meanwhile"):
        write(pipeline.changes(CHANGES))
    assert texts_of(pipeline) == before


WRITE = """
import resource, sys
from pathlib import Path
from endcap.tools.config_changes import write
from endcap.tools.tune.settings import Change, read_pipeline
from endcap.triton.errors import ServerError
pipeline = read_pipeline(Path(sys.argv[1]), "detect")
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    changes = Change("detector", "instances", "2"), Change("preprocess", "threads", "1")
    write(pipeline.changes(changes))
except ServerError as error:
    print(error)
"""


def test_all_files_are_written_or_none(pipeline: Pipeline) -> None:
    before = texts_of(pipeline)
    sizes = [len(before[name].encode()) for name in ("detector", "preprocess")]
    assert sizes[0] + 500 < sizes[1] < resource.RLIM_INFINITY % 2**62
    command = [sys.executable, "-c", WRITE, str(pipeline.repository), str(sizes[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "preprocess/config.pbtxt cannot be written" in done.stdout, done.stderr
    assert texts_of(pipeline) == before
    left = [path for name in MODELS for path in (pipeline.repository / name).glob(".endcap*")]
    assert left == []


def test_two_at_once_do_not_share_an_output(
    pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory
) -> None:
    output = tmp_path_factory.mktemp("tune-output")
    command = ["tune", pipeline.repository, output / "absent.jpg", "--output", output]
    with lock_folder(output) as is_free:
        assert is_free
        assert_error_message(
            endcap(*command), "in use by another `endcap tune`", "wait for its end"
        )
    assert_error_message(endcap(*command), "absent.jpg does not exist")
    assert list(output.iterdir()) == []
