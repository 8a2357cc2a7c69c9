"""Ensembles of models x -> y: such as a server loads, and such as it does not."""

from __future__ import annotations

from pathlib import Path

from tests.support.echo_model import ECHO, TENSORS, write_model

_STEP = '{{ model_name: "{}" model_version: -1 input_map {{ {} }} output_map {{ {} }} }}'
INTEGERS = TENSORS.replace("FP32", "INT32")
OPTIONAL = TENSORS.replace(
    "input [ {", 'input [ { name: "w" data_type: TYPE_FP32 dims: [ 1 ] optional: true }, {'
)
UNBATCHED = TENSORS.replace("max_batch_size: 4", "max_batch_size: 0")


def ensemble(*steps: tuple[str, str, str], tensors: str = TENSORS) -> str:
    """A configuration; a step is a model and the ensemble's names of its x and y, in one line."""
    written = ",\n".join(
        _STEP.format(model, f'key: "x" value: "{x}"', f'key: "y" value: "{y}"')
        for model, x, y in steps
    )
    return f'platform: "ensemble" {tensors}ensemble_scheduling {{ step [\n{written}\n] }}'


# The tensors are in lines 2 to 4, the steps from line 6 on.
LOADED = {
    "plain": ensemble(("echo", "x", "y")),
    "of_ensemble": ensemble(("plain", "x", "y")),
    "with_an_optional_input": ensemble(("optional", "x", "y")),
    "free_dims": ensemble(("echo", "x", "y"), tensors=TENSORS.replace("[ 1 ]", "[ -1 ]")),
    "whole_shapes": ensemble(
        ("echo", "x", "y"), tensors=UNBATCHED.replace("dims: [ 1 ]", "dims: [ -1, 1 ]")
    ),
}
# name: (configuration, line of the finding, how it begins)
REFUSED = {
    "twice": (
        ensemble(("echo", "x", "y"), ("echo", "x", "y")),
        7,
        "step echo produces y, which step echo produces in line 6",
    ),
    "left_over": (
        ensemble(("echo", "x", "y"), ("echo", "x", "z")),
        7,
        "step echo produces z, and nothing takes it",
    ),
    "types": (
        ensemble(("echo", "x", "a"), ("integers", "a", "b"), ("echo", "x", "y")).replace(
            "output [", 'output [ { name: "b" data_type: TYPE_INT32 dims: [ 1 ] },'
        ),
        7,
        "step integers takes x as INT32 [1], and echo gives y FP32 [1]",
    ),
    "above": (
        ensemble(("echo", "x", "y"), tensors=TENSORS.replace(": 4", ": 8")),
        2,
        "the ensemble's max_batch_size is 8, and that of echo 4",
    ),
    "no_steps": (ensemble(), 5, "the ensemble has no step"),
}


def write_called(repository: Path) -> None:
    """Write the models that the ensembles call."""
    for name, tensors in (("echo", TENSORS), ("integers", INTEGERS), ("optional", OPTIONAL)):
        write_model(repository, name, 'backend: "python"' + tensors, ECHO)
