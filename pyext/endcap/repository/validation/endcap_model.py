"""A model of endcap's stages: its parameters, and its tensors against what they determine."""

from __future__ import annotations

from endcap.repository.validation.finding import Finding
from endcap.repository.validation.labels import check_labels_file, check_labels_separator
from endcap.repository.validation.model import POSTPROCESS, PREPROCESS, Model
from endcap.repository.validation.parameters import read_parameters
from endcap.repository.validation.rois import check_rois
from endcap.repository.validation.settle import settle
from endcap.repository.validation.tensors import SIDES, Interface, Port, declared_interface
from endcap.triton.tensor_contract import class_paths_contract, contracts_of


def examine_endcap_model(model: Model) -> tuple[list[Finding], Interface]:
    """Return what is wrong with a model that has a stage, and its tensors as completed."""
    findings, core = read_parameters(model)
    if core is None:
        return findings, declared_interface(model, in_doubt=True)
    takes_rois = model.stage == PREPROCESS and not model.runs_dali
    with_rois = takes_rois and any(entry.name == "rois" for entry in model.config.input)
    if with_rois:
        findings += check_rois(model)
    contracts = contracts_of(core, with_rois=with_rois)
    if model.parameters.get("labels_separator") and model.stage == POSTPROCESS:
        contracts["output"].append(class_paths_contract(core))
    ports: list[dict[str, Port]] = []
    contradictory = False
    for side in SIDES:
        of_side, completed = settle(model, side, contracts[side])
        findings += of_side
        contradictory |= bool(of_side)
        ports.append(completed)
    if model.stage == POSTPROCESS:
        values = {name: value for name, _, _, value in core.parameters}
        findings += check_labels_file(model, values["head"], int(values["num_classes"]))
        findings += check_labels_separator(model)
    return findings, Interface(ports[0], ports[1], model.max_batch_size, contradictory)
