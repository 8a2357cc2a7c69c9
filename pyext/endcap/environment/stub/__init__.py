"""The stub that a Python model's folder carries: puts it there, and looks whether it can work."""

from endcap.environment.stub.checking import Check, StubReport, check
from endcap.environment.stub.errors import StubError
from endcap.environment.stub.installing import InstalledStub, install

__all__ = ["Check", "InstalledStub", "StubError", "StubReport", "check", "install"]
