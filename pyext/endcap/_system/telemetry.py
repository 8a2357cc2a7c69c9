"""What ONNX Runtime would tell its makers."""

from __future__ import annotations

import os

VARIABLE = "ORT_DISABLE_TELEMETRY"


def disable_telemetry() -> None:
    """Keep ONNX Runtime from sending what it runs; to be called before it is imported.

    From 1.29 on it sends names and hashes of networks, unless the variable is set, which a value
    of the user's own leaves as it is. It keeps a session's number in the temporary folder.
    """
    os.environ.setdefault(VARIABLE, "1")
