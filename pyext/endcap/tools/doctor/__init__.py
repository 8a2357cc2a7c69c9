"""What a machine has for endcap, what it lacks, and what to type: the checks of `endcap doctor`."""

from endcap.tools.doctor.catalogue import CHECKS, Check, examine
from endcap.tools.doctor.finding import Finding, Severity, worst
from endcap.tools.doctor.subject import Subject

__all__ = ["CHECKS", "Check", "Finding", "Severity", "Subject", "examine", "worst"]
