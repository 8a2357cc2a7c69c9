"""Makes a wheel of the endcap that is installed here, in a second and without a compiler.

Of what it needs only NumPy is named: that is all that models in an environment import.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

import endcap
from tests.support.conda_channel import stripped

_TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
_PARTS = ("backends", "model_repository")  # what the core's build brings, beside modules


def write_wheel(folder: Path, *, tag: str = f"{_TAG}-{_TAG}-linux_x86_64") -> Path:
    """Write the wheel into a folder, with scratch files; return its path."""
    version = endcap.__version__
    target = folder / f"endcap-{version}-{tag}.whl"
    info = f"endcap-{version}.dist-info"
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: endcap\nVersion: {version}\n"
        "Requires-Dist: numpy\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\n"
        f"Tag: {tag}\n",
    }
    record = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as wheel:
        for name, source in _files().items():
            is_library = source.suffix == ".so"
            data = (stripped(source, folder) if is_library else source).read_bytes()
            wheel.writestr(name, data)
            record.append(_line(name, data))
        for name, text in texts.items():
            wheel.writestr(name, text)
            record.append(_line(name, text.encode()))
        wheel.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return target


def _files() -> dict[str, Path]:
    """Path in the wheel -> file; an editable install has two folders, one with what was built."""
    found: dict[str, Path] = {}
    for root in map(Path, endcap.__path__):
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root)
            left_out = "__pycache__" in name.parts or name.parts[0] in _PARTS
            if path.is_file() and not left_out:
                found.setdefault(f"endcap/{name}", path)
    return found


def _line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"
