"""Checking a model repository: all that is wrong with it, each thing with its line."""

from endcap.repository.validation.finding import Finding, Report, Severity
from endcap.repository.validation.run import validate_repository

__all__ = ["Finding", "Report", "Severity", "validate_repository"]
