"""Unpacks what `make gpu-kit` made, with nothing but Python.

python tests/gpu/unpack_kit.py wheels KIT FOLDER: the wheels for this Python, into FOLDER
python tests/gpu/unpack_kit.py server KIT FOLDER: bin/tritonserver and lib/

Exits with 1 and a sentence on stderr when that cannot be done.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path


def fits(wheel: Path) -> bool:
    """Whether a wheel of the kit is one for this Python: of other Pythons' it has too."""
    tag = "cp{}{}".format(*sys.version_info[:2])
    python, abi = wheel.stem.split("-")[-3:-1]
    return tag in python.split(".") or abi == "abi3" or python.startswith("py")


def unpack_wheels(kit: Path, target: Path) -> None:
    """Puts packages beside each other in `target`, a folder for PYTHONPATH."""
    wheels = [wheel for wheel in sorted((kit / "wheels").glob("*.whl")) if fits(wheel)]
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    if not (target / "endcap").is_dir():
        version = "{}.{}".format(*sys.version_info[:2])
        sys.exit(f"{kit}/wheels has no endcap for Python {version}")
    # Of a package that others share, torch among them: their parts are to be found too.
    (target / "nvidia" / "__init__.py").unlink(missing_ok=True)


def unpack_server(kit: Path, target: Path) -> None:
    """Unpacks the server; its archive is the one that `make gpu-kit` made."""
    packed = kit / "tritonserver.tar.xz"
    if not packed.is_file():
        sys.exit(f"{kit} has no server")
    try:
        with tarfile.open(packed) as archive:
            archive.extractall(target, filter="fully_trusted")
    except tarfile.TarError as error:  # this Python may be without lzma
        sys.exit(f"the server could not be unpacked: {error}")


if __name__ == "__main__":
    what, kit, folder = sys.argv[1:]
    {"wheels": unpack_wheels, "server": unpack_server}[what](Path(kit), Path(folder))
