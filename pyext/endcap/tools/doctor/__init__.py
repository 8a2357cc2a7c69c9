"""The checks of `endcap doctor`: the state of a machine, its problems, and the remedies."""

from endcap.tools.doctor.catalogue import CHECKS, Check, run_checks
from endcap.tools.doctor.finding import Finding, Severity, worst
from endcap.tools.doctor.subject import Subject

__all__ = ["CHECKS", "Check", "Finding", "Severity", "Subject", "run_checks", "worst"]
