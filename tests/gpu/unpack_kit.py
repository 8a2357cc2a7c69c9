"""Unpack what `make gpu-kit` made, with the standard library alone.

python tests/gpu/unpack_kit.py wheels KIT FOLDER: the wheels for this Python, into FOLDER
python tests/gpu/unpack_kit.py server KIT FOLDER: bin/tritonserver and lib/
python tests/gpu/unpack_kit.py variants KIT FOLDER: NAME/libendcap_cuda.so, and variants.json

Exits with 1 and an error message on stderr when that cannot be done.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

VERSION = "{}.{}".format(*sys.version_info[:2])


def fits(wheel: Path) -> bool:
    """Returns whether a wheel of the kit is for this Python."""
    tag = "cp" + VERSION.replace(".", "")
    python, abi = wheel.stem.split("-")[-3:-1]
    return tag in python.split(".") or abi == "abi3" or python.startswith("py")


def why_no_endcap(kit: Path) -> str:
    """Returns the error message of a kit without endcap for this Python."""
    if not kit.is_dir():
        return f"{kit} is not a folder; `make gpu-kit` makes build/gpu-kit"
    tags = [wheel.stem.split("-")[2] for wheel in sorted(kit.glob("wheels/endcap-*.whl"))]
    if not tags:
        return f"{kit}/wheels holds no wheel of endcap; `make gpu-kit` makes such a folder"
    held = " and ".join(f"{tag[2:3]}.{tag[3:]}" for tag in tags)
    return (
        f"{kit} holds endcap for Python {held}, this is Python {VERSION} ({sys.executable}): name "
        f"another Python of this machine (PYTHON=...), or make the kit for this one with "
        f"`make gpu-kit GPU_PYTHON=python{VERSION}`"
    )


def unpack_wheels(kit: Path, target: Path) -> None:
    """Puts packages beside each other in `target`, a folder for PYTHONPATH."""
    wheels = [wheel for wheel in sorted((kit / "wheels").glob("*.whl")) if fits(wheel)]
    if not any(wheel.name.startswith("endcap-") for wheel in wheels):
        sys.exit(why_no_endcap(kit))
    for wheel in wheels:
        try:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(target)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            # Cut off on its way, or LZMA, which this Python may be without.
            sys.exit(f"{wheel} cannot be unpacked: {error}")
    # Of a package that others share, torch among them: their parts are to be found too.
    (target / "nvidia" / "__init__.py").unlink(missing_ok=True)


def unpack_archive(packed: Path, target: Path) -> None:
    """Unpacks an archive that `make gpu-kit` made."""
    if not packed.is_file():
        sys.exit(f"{packed} is missing; `make gpu-kit` makes it")
    try:
        with tarfile.open(packed) as archive:
            archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
            archive.extractall(target)
    except (tarfile.TarError, EOFError, OSError) as error:
        # Cut off on its way, or this Python is without lzma.
        sys.exit(f"{packed} cannot be unpacked: {error}")


if __name__ == "__main__":
    what, kit, folder = sys.argv[1:]
    if what == "wheels":
        unpack_wheels(Path(kit), Path(folder))
    else:
        archives = {"server": "tritonserver.tar.xz", "variants": "variants.tar.xz"}
        unpack_archive(Path(kit, archives[what]), Path(folder))
