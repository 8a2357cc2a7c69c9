"""Parameters of preprocess as the arguments that endcap's DALI operators take."""

from __future__ import annotations

import re
from collections.abc import Mapping

from endcap.triton.stage_contract import preprocess_contract

Argument = bool | int | float | str | list[int | float]

# The names in nvidia.dali.types.
DALI_TYPES = {"float32": "FLOAT", "float16": "FLOAT16", "uint8": "UINT8", "int8": "INT8"}

_WHOLE = re.compile(r"-?[0-9]+")


def dali_arguments(parameters: Mapping[str, str]) -> dict[str, Argument]:
    """Return the arguments by name, `preset` among them; `dtype` by its name in nvidia.dali.types.

    Raises InvalidArgumentError or UnsupportedError for parameters that cannot be.

    Args:
        parameters: As config.pbtxt has them, only those that are to be given.
    """
    # The core's own spelling of each value: `640` becomes `640,640`.
    values = {**preprocess_contract(parameters).parameters, "preset": parameters.get("preset", "")}
    return {name: _argument(name, values[name]) for name in parameters}


def _argument(name: str, text: str) -> Argument:
    if name == "dtype":
        return DALI_TYPES[text]
    if text in ("true", "false"):
        return text == "true"
    try:
        numbers = [_number(part) for part in text.split(",")]
    except ValueError:
        return text
    return numbers if len(numbers) > 1 else numbers[0]


def _number(text: str) -> int | float:
    return int(text) if _WHOLE.fullmatch(text) else float(text)
