"""Checks of a model repository: everything that is wrong, with file and line.

`validator.validate_repository` calls the checks in order: it reads every folder into a `Model`
(`model`), checks each alone (`declarations`), then its tensors: of endcap's backends against their
parameters (`endcap_model`), of networks against the ONNX file (`network`). The resulting interfaces
(`tensors`) are what ensembles (`ensemble`, with their `steps`) and cascades are checked against.
"""

from endcap.repository.validation.model import Finding, Report, Severity
from endcap.repository.validation.validator import validate_repository

__all__ = ["Finding", "Report", "Severity", "validate_repository"]
