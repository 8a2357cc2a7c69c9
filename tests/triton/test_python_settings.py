"""Configs that cannot be carried out, read as the Python models read them, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bad_configs import BAD, BAD_POSTPROCESS, BAD_ROIS
from model_folders import tensor, write_postprocess, write_preprocess
from python_configs import read_config

from endcap.errors import EndcapError
from endcap.triton.stage_settings import postprocess_settings, preprocess_settings
from endcap.triton.tensor_completion import complete_tensors


def completed(folder: Path, *, stage: str = "preprocess") -> dict[str, Any]:
    config = read_config(folder / "config.pbtxt")
    settings = (
        preprocess_settings(config)
        if stage == "preprocess"
        else postprocess_settings(config, folder)
    )
    complete_tensors(config, settings.contracts, complete=True)
    return config


@pytest.mark.parametrize("name", sorted(BAD))
def test_the_error_message_is_the_compiled_backends(tmp_path: Path, name: str) -> None:
    options, texts = BAD[name]
    stage = "postprocess" if name in BAD_POSTPROCESS else "preprocess"
    write = write_postprocess if stage == "postprocess" else write_preprocess
    max_batch_size = 0 if name in BAD_ROIS else 4
    write(tmp_path, name, **{"max_batch_size": max_batch_size, **options}, variant="python")
    with pytest.raises(EndcapError) as error:
        completed(tmp_path / name, stage=stage)
    for text in texts:
        assert text in str(error.value)


def test_parameters_of_the_server_are_no_parameters_of_the_model(tmp_path: Path) -> None:
    parameters = {"EXECUTION_ENV_PATH": "/env.tar.gz", "FORCE_CPU_ONLY_INPUT_TENSORS": "yes"}
    write_preprocess(tmp_path, "pre", parameters={**parameters, "size": 32}, variant="python")
    config = completed(tmp_path / "pre")
    assert config["output"][0]["dims"] == [3, 32, 32]


def test_what_is_given_stays_and_what_is_open_is_filled(tmp_path: Path) -> None:
    given = ['{ name: "encoded" data_type: TYPE_UINT8 }']
    outputs = [tensor("images", "TYPE_FP32", [-1, 640, -1]), '{ name: "geometry" }']
    write_preprocess(tmp_path, "pre", inputs=given, outputs=outputs, variant="python")
    config = completed(tmp_path / "pre")
    assert config["input"] == [{"name": "encoded", "data_type": "TYPE_UINT8", "dims": [-1]}]
    assert config["output"] == [
        {"name": "images", "data_type": "TYPE_FP32", "dims": [3, 640, 640]},
        {"name": "geometry", "data_type": "TYPE_FP32", "dims": [8]},
    ]


def test_a_reshape_is_held_to_the_contract_in_the_dims_stead(tmp_path: Path) -> None:
    reshaped = tensor("encoded", "TYPE_STRING", [1, 1], more="reshape { shape: [ 1 ] }")
    write_preprocess(tmp_path, "pre", inputs=[reshaped], variant="python")
    config = completed(tmp_path / "pre")
    assert [int(dim) for dim in config["input"][0]["dims"]] == [1, 1]
    wrong = tensor("encoded", "TYPE_STRING", [1], more="reshape { shape: [ 2 ] }")
    write_preprocess(tmp_path, "wrong", inputs=[wrong], variant="python")
    with pytest.raises(EndcapError, match=r"'encoded' is TYPE_STRING \[2\] in the config"):
        completed(tmp_path / "wrong")


def test_a_config_that_is_complete_is_not_touched(tmp_path: Path) -> None:
    write_postprocess(tmp_path, "post", parameters={"head": "yolov8"}, variant="python")
    whole = completed(tmp_path / "post", stage="postprocess")
    settings = postprocess_settings(whole, tmp_path)
    before = {side: [dict(entry) for entry in whole[side]] for side in ("input", "output")}
    complete_tensors(whole, settings.contracts, complete=False)
    assert {side: whole[side] for side in before} == before
