"""The tensors of a config.pbtxt against what the parameters make of them.

The same as of the compiled backends, by the same rules and in the same words
(backends/triton_util/tensor_contract.cc).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from endcap.errors import InvalidArgumentError
from endcap.triton.tensor_contract import TensorContract
from endcap.triton.tensor_spec import TensorSpec, dims_fit, free_dims

_UNSET = "TYPE_INVALID"


def complete_tensors(
    config: dict[str, Any], contracts: Mapping[str, Sequence[TensorContract]], *, complete: bool
) -> None:
    """Hold the inputs and outputs of a config, in JSON's terms, to their contracts.

    Args:
        config: changed where ``complete`` is set.
        contracts: of `input` and of `output`.
        complete: whether to fill in what is left out: whole sides, types, dims that are -1.

    Raises:
        InvalidArgumentError: a tensor that the model does not have, or that cannot be as it is
            declared, or a required input that is not there.
    """
    for side, of_side in contracts.items():
        entries = config.setdefault(side, [])
        if not entries and complete:
            entries += [_new_entry(side, contract) for contract in of_side]
            continue
        by_name = {contract.name: contract for contract in of_side}
        for entry in entries:
            contract = by_name.get(entry["name"])
            if contract is None:
                raise InvalidArgumentError(
                    f"the config has an {side} '{entry['name']}': this model's are "
                    + ", ".join(by_name)
                )
            _refuse_labels(entry, contract)
            form = _fitting(side, entry, contract)
            if complete:
                _fill(entry, form)
        _require_inputs(side, entries, of_side)


def _new_entry(side: str, contract: TensorContract) -> dict[str, Any]:
    form = contract.forms[0]
    entry: dict[str, Any] = {
        "name": contract.name,
        "data_type": f"TYPE_{form.data_type}",
        "dims": _dims(form),
    }
    if side == "input" and contract.optional:
        entry["optional"] = True
    return entry


def _fitting(side: str, entry: Mapping[str, Any], contract: TensorContract) -> TensorSpec:
    data_type = entry.get("data_type", _UNSET)
    reshaped = "reshape" in entry
    # What the model sees: `reshape` stands in for `dims`.
    given = entry["reshape"].get("shape", []) if reshaped else entry.get("dims", [])
    shape = [int(dim) for dim in given]
    for form in contract.forms:
        fits = not (shape or reshaped) or dims_fit(free_dims(shape), form.dims)
        if fits and data_type in (_UNSET, f"TYPE_{form.data_type}"):
            return form
    declared = f"{shape}" if data_type == _UNSET else f"{data_type} {shape}"
    change = f", or change {contract.determined_by}" if contract.determined_by else ""
    raise InvalidArgumentError(
        f"{side} '{contract.name}' is {declared} in the config: give {_forms(contract)}{change}"
    )


def _fill(entry: dict[str, Any], form: TensorSpec) -> None:
    entry["data_type"] = f"TYPE_{form.data_type}"
    if "reshape" in entry:
        return
    given = [int(dim) for dim in entry.get("dims", [])] or [-1] * len(form.dims)
    entry["dims"] = [b if a == -1 else a for a, b in zip(given, _dims(form), strict=True)]


def _refuse_labels(entry: Mapping[str, Any], contract: TensorContract) -> None:
    if contract.labels_belong_to and entry.get("label_filename"):
        raise InvalidArgumentError(
            f"output '{contract.name}' has a label_filename in the config, but its elements are "
            "not in the order of the classes: give the label_filename to output "
            f"'{contract.labels_belong_to}'"
        )


def _require_inputs(
    side: str, entries: Sequence[Mapping[str, Any]], contracts: Sequence[TensorContract]
) -> None:
    names = {entry["name"] for entry in entries}
    for contract in contracts:
        if side == "input" and not contract.optional and contract.name not in names:
            raise InvalidArgumentError(
                f"input '{contract.name}' is missing in the config: add it as {_forms(contract)}"
            )


def _forms(contract: TensorContract) -> str:
    return " or ".join(f"TYPE_{form.data_type} {_dims(form)}" for form in contract.forms)


def _dims(form: TensorSpec) -> list[int]:
    return [-1 if dim is None else dim for dim in form.dims]
