"""What people call the release of a server that was found."""

from __future__ import annotations

import importlib.metadata

from endcap.server.locate import ServerInstallation

_WHEEL = "nvidia-pytriton"


def release_of(server: ServerInstallation) -> str:
    """Returns "tritonserver 2.51.0" or "nvidia-pytriton 0.7.0", by the files beside the program."""
    root = server.executable.parent.parent
    # NVIDIA's container writes its version into the installation's folder.
    written = root / "TRITON_VERSION"
    if written.is_file():
        return f"tritonserver {written.read_text(encoding='utf-8').strip()}"
    site_packages = root.parent.parent
    for wheel in importlib.metadata.distributions(name=_WHEEL, path=[str(site_packages)]):
        return f"{_WHEEL} {wheel.version}"
    return "tritonserver of unknown version"
