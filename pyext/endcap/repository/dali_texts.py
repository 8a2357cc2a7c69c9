"""What a repository says to NVIDIA's DALI backend, beside what it says to the Python backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from endcap.repository.options import FirstEnd
from endcap.repository.plan import Plan, values
from endcap.triton.dali_arguments import Argument, dali_arguments
from endcap.triton.stage_contract import preprocess_contract
from endcap.triton.tensor_spec import TensorSpec

Text = tuple[str, str, Mapping[str, Any]]  # a file's path, its template, and what that is given

_ENCODED = TensorSpec("encoded", "UINT8", (-1,))


def dali_context(plan: Plan) -> dict[str, Any]:
    """Return what the templates need to know of a DALI pipeline; for others that there is none."""
    if plan.options.preprocess is not FirstEnd.dali:
        return {"in_dali_backend": False}
    outputs = [
        spec
        for spec in preprocess_contract(values(plan.preprocess)).outputs
        # Which no step of a classifier takes, and the backend answers for all outputs or none.
        if not (plan.is_classifier and spec.name == "geometry")
    ]
    texts = [f"{spec.name} [{', '.join(map(str, spec.dims))}]" for spec in outputs]
    return {
        "in_dali_backend": False,
        "pipeline_outputs": outputs,
        "pipeline_text": f"{', '.join(texts[:-1])} and {texts[-1]}",
        "dali_arguments": {
            name: _literal(name, value)
            for name, value in dali_arguments(values(plan.preprocess)).items()
        },
    }


def _literal(name: str, value: Argument) -> str:
    if name == "dtype":
        return f"types.{value}"
    return f'"{value}"' if isinstance(value, str) else repr(value)  # names need no escapes


def in_dali_backend(plan: Plan, context: Mapping[str, Any]) -> list[Text]:
    """Return the files for that backend."""
    there = {**context, "encoded": _ENCODED, "in_dali_backend": True}
    names = plan.names
    return [
        (f"{names.preprocess}/1/dali.py", "dali.py.j2", there),
        (
            f"{names.preprocess}/configs/dali.pbtxt",
            "preprocess_dali_backend.config.pbtxt.j2",
            there,
        ),
        (f"{names.ensemble}/configs/dali.pbtxt", "ensemble.config.pbtxt.j2", there),
    ]
