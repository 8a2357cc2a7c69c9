"""Writes the model folders that the server tests load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

ON_CPU = "instance_group { kind: KIND_CPU }"

# What runs endcap's steps in the server: its own backends, or models of the Python backend.
VARIANTS = ("compiled", "python")
_SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"


def tensor(name: str, data_type: str, dims: list[int], *, more: str = "") -> str:
    return f'{{ name: "{name}" data_type: {data_type} dims: {dims} {more} }}'


def write_model(
    repository: Path,
    name: str,
    *,
    backend: str,
    parameters: Mapping[str, object] | None = None,
    max_batch_size: int = 0,
    inputs: list[str] | None = None,
    outputs: list[str] | None = None,
    more: str = "",
    files: Mapping[str, str] | None = None,
) -> None:
    """One model; what is not given stays out of its config.pbtxt."""
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    lines = [f'backend: "{backend}"', f"max_batch_size: {max_batch_size}"]
    for side, tensors in (("input", inputs), ("output", outputs)):
        lines += [f"{side} {each}" for each in tensors or []]
    for key, value in (parameters or {}).items():
        lines.append(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}')
    (folder / "config.pbtxt").write_text("\n".join([*lines, more]) + "\n")
    for file_name, text in (files or {}).items():
        (folder / file_name).write_text(text)


def write_preprocess(repository: Path, name: str, **options: Any) -> None:
    """`variant`: one of VARIANTS, else the first, or "dali"; the others as of write_model."""
    _write_stage(repository, name, "preprocess", **options)


def write_postprocess(repository: Path, name: str, **options: Any) -> None:
    """As write_preprocess, but for "dali"."""
    _write_stage(repository, name, "postprocess", **options)


def _write_stage(
    repository: Path, name: str, stage: str, *, variant: str = "compiled", **options: Any
) -> None:
    if variant == "compiled":
        write_model(repository, name, backend=f"endcap_{stage}", **options)
        return
    model = (_SHIPPED / f"{stage}_{variant}" / "1" / "model.py").read_text()
    options["files"] = {**(options.get("files") or {}), "1/model.py": model}
    of_server = {"FORCE_CPU_ONLY_INPUT_TENSORS": "no"}
    options["parameters"] = {**(options.get("parameters") or {}), **of_server}
    write_model(repository, name, backend="python", **options)


def batching(delay_us: int) -> str:
    return f"dynamic_batching {{ max_queue_delay_microseconds: {delay_us} }}"


def write_ensemble(
    repository: Path,
    name: str,
    *,
    inputs: list[str],
    outputs: list[str],
    steps: list[tuple[str, dict[str, str], dict[str, str]]],
    max_batch_size: int = 0,
) -> None:
    """An ensemble; a step: the model, and its tensors' names in the ensemble."""
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    lines = ['platform: "ensemble"', f"max_batch_size: {max_batch_size}"]
    lines += [f"input {each}" for each in inputs] + [f"output {each}" for each in outputs]
    scheduled = ""
    for model, taken, given in steps:
        maps = [("input_map", taken), ("output_map", given)]
        passed = " ".join(
            f'{field} {{ key: "{key}" value: "{value}" }}'
            for field, names in maps
            for key, value in names.items()
        )
        scheduled += f'step {{ model_name: "{model}" model_version: -1 {passed} }} '
    lines.append(f"ensemble_scheduling {{ {scheduled}}}")
    (folder / "config.pbtxt").write_text("\n".join(lines) + "\n")
