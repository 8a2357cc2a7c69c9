"""Parameters of a model's config.pbtxt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from endcap.errors import InvalidArgumentError

# What the Python backend itself reads there: the environment of a model, an archive or a folder.
EXECUTION_ENVIRONMENT = "EXECUTION_ENV_PATH"
# In it Triton replaces this by the model's folder, wherever the repository lies.
MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
SERVER_PARAMETERS = (EXECUTION_ENVIRONMENT, "FORCE_CPU_ONLY_INPUT_TENSORS")
# What `endcap serve` reads in Python models: whether it may leave one out that cannot run.
OPTIONAL = "optional"


def read_parameters(
    model_config: Mapping[str, Any], known: Sequence[str] | None = None
) -> dict[str, str]:
    """Return the model's own parameters as text, by name.

    Args:
        model_config: config.pbtxt as the server hands it over, in JSON's terms.
        known: the names that there are, in the order in which an error lists them; None leaves
            names unchecked.

    Returns:
        The parameters of that names; those of the server and of `endcap serve` are not among them.

    Raises:
        InvalidArgumentError: a parameter that is not known, or `optional` is not true or false.
    """
    given = {
        name: str(value.get("string_value", ""))
        for name, value in model_config.get("parameters", {}).items()
        if name not in SERVER_PARAMETERS
    }
    if given.pop(OPTIONAL, "false") not in ("true", "false"):
        raise InvalidArgumentError(f"{OPTIONAL} is neither true nor false; give one of them")
    for name in given:
        if known is not None and name not in known:
            raise InvalidArgumentError(
                f"'{name}' is not a parameter of this model: there are {', '.join(known)}"
            )
    return given


def parse_count(name: str, text: str) -> int:
    """Return a whole number of 0 or more.

    Raises:
        InvalidArgumentError: any other text, naming the parameter.
    """
    if re.fullmatch("[0-9]+", text) and int(text) < 2**31:
        return int(text)
    raise InvalidArgumentError(f"{name} is '{text}': give a whole number of 0 or more")
