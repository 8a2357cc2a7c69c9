"""The deployment files of `deploy/`, and the commands of its images."""

from __future__ import annotations

import json
import re
from pathlib import Path

from endcap.server import ServerPorts

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def image_command(kind: str) -> list[str]:
    """Return what the image for `cpu` or `gpu` runs: its ENTRYPOINT and CMD."""
    text = (DEPLOY / f"Dockerfile.{kind}").read_text()
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    return [*json.loads(entrypoint), *json.loads(command)]


def command_on(kind: str, repository: Path, ports: ServerPorts) -> list[str]:
    """Return the same command for a repository and ports of this machine."""
    command = image_command(kind)
    (index,) = [index for index, each in enumerate(command) if each.endswith("/models")]
    command[index] = command[index].replace("/models", str(repository))
    return [
        *command,
        f"--http-port={ports.http}",
        f"--grpc-port={ports.grpc}",
        f"--metrics-port={ports.metrics}",
    ]
