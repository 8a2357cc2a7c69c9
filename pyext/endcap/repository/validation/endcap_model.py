"""A model of endcap's own backends: its parameters, and its tensors against what they determine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from endcap.repository.pbtxt_lines import Block
from endcap.repository.tensor_spec import TensorSpec
from endcap.repository.validation.contracts import Contract, contracts_of
from endcap.repository.validation.finding import Finding
from endcap.repository.validation.labels import check_labels_file
from endcap.repository.validation.model import Model
from endcap.repository.validation.parameters import POSTPROCESS, PREPROCESS, read_parameters
from endcap.repository.validation.tensors import (
    SIDES,
    Dims,
    Interface,
    Port,
    data_type_of,
    declared_interface,
    declared_ports,
    dims_fit,
    form,
    free_dims,
)

BACKENDS = (PREPROCESS, POSTPROCESS)


def examine_endcap_model(model: Model) -> tuple[list[Finding], Interface]:
    """Returns what is wrong with a model of one of BACKENDS, and its tensors as completed."""
    findings, core = read_parameters(model)
    if core is None:
        return findings, declared_interface(model, in_doubt=True)
    contracts = contracts_of(core)
    ports: list[dict[str, Port]] = []
    contradictory = False
    for side in SIDES:
        of_side, completed = _settle(model, side, contracts[side])
        findings += of_side
        contradictory |= bool(of_side)
        ports.append(completed)
    if model.backend == POSTPROCESS:
        values = {name: value for name, _, _, value in core.parameters}
        findings += check_labels_file(model, values["head"], int(values["num_classes"]))
    return findings, Interface(ports[0], ports[1], model.max_batch_size, contradictory)


def _settle(
    model: Model, side: str, contracts: Sequence[Contract]
) -> tuple[list[Finding], dict[str, Port]]:
    """Compares one side's declared tensors with the contracts, and completes them."""
    entries = getattr(model.config, side)
    if not entries:
        return [], {c.name: _undeclared(c) for c in contracts}
    by_name = {contract.name: contract for contract in contracts}
    findings: list[Finding] = []
    ports = declared_ports(model, side)
    for index, entry in enumerate(entries):
        contract = by_name.get(entry.name)
        block = model.lines.nth(side, index)
        fitting = next((f for f in contract.forms if _fits(entry, f)), None) if contract else None
        if contract is None:
            findings.append(
                model.error(
                    block.line_of("name"),
                    f"{side} {entry.name} is none of {model.backend}",
                    f"take it out, or give it a name that is: {', '.join(by_name)}",
                )
            )
        elif fitting is None:
            findings.append(_unfit(model, side, entry, contract, block))
        if contract is not None:
            findings += _check_label_filename(model, entry, contract, block)
        port = ports[entry.name]
        ports[entry.name] = (
            replace(port, in_doubt=True, optional=True)
            if contract is None or fitting is None
            else replace(
                port,
                tensor=_completed(port.tensor, fitting),
                determined_by=contract.determined_by,
            )
        )
    misnamed = ports.keys() - by_name.keys()
    missing = _missing(side, contracts, ports)
    # A tensor that is misnamed is found; what it was meant for is not missing besides.
    findings += [_lacks(model, contract) for contract in missing[len(misnamed) :]]
    if misnamed or missing:
        for contract in contracts:
            ports.setdefault(
                contract.name, replace(_undeclared(contract), optional=True, in_doubt=True)
            )
    return findings, ports


def _undeclared(contract: Contract) -> Port:
    return Port(contract.forms[0], optional=contract.optional, determined_by=contract.determined_by)


def _fits(entry: Any, allowed: TensorSpec) -> bool:
    shape = _shape(entry)
    return data_type_of(entry) in ("", allowed.data_type) and (
        shape is None or dims_fit(shape, allowed.dims)
    )


def _shape(entry: Any) -> Dims | None:
    """Returns the shape that the backend sees, None where it completes it."""
    if entry.HasField("reshape"):
        return free_dims(entry.reshape.shape)
    return free_dims(entry.dims) or None


def _completed(declared: TensorSpec, allowed: TensorSpec) -> TensorSpec:
    dims = declared.dims or allowed.dims
    if len(dims) == len(allowed.dims):  # else a reshape stands between them
        dims = tuple(b if a is None else a for a, b in zip(dims, allowed.dims, strict=True))
    return TensorSpec(declared.name, allowed.data_type, dims)


def _unfit(model: Model, side: str, entry: Any, contract: Contract, block: Block) -> Finding:
    types = {"", *(allowed.data_type for allowed in contract.forms)}
    declared = form(TensorSpec("", data_type_of(entry), _shape(entry) or ()))
    change = f", or change {contract.determined_by}" if contract.determined_by else ""
    return model.error(
        block.line_of("reshape", "dims")
        if data_type_of(entry) in types
        else block.line_of("data_type"),
        f"{side} {entry.name} is declared as {declared}, and this model's is "
        + " or ".join(map(form, contract.forms)),
        f"declare it so{change}",
    )


def _check_label_filename(
    model: Model, entry: Any, contract: Contract, block: Block
) -> Iterator[Finding]:
    if contract.labels_belong_to and entry.label_filename:
        yield model.error(
            block.line_of("label_filename"),
            f"output {entry.name} has a label_filename, and its elements are not in the order of "
            "the classes",
            f"give the label_filename to output {contract.labels_belong_to}",
        )


def _missing(side: str, contracts: Sequence[Contract], ports: Mapping[str, Port]) -> list[Contract]:
    """Returns the inputs that have to be declared and are not; outputs may be left out."""
    required = [each for each in contracts if side == "input" and not each.optional]
    return [each for each in required if each.name not in ports]


def _lacks(model: Model, contract: Contract) -> Finding:
    return model.error(
        model.lines.line_of("input"),
        f"input {contract.name} is missing among those declared",
        f"add it as {' or '.join(map(form, contract.forms))}, or declare no input: the backend "
        "then completes all",
    )
