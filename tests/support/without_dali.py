"""A Python in which DALI is not installed, whatever the running one has."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

# In a .pth file: a module that is None there cannot be found.
WITHOUT_DALI = 'import sys; sys.modules["nvidia.dali"] = None\n'


def python_without_dali(folder: Path) -> Path:
    """A Python with the packages of the running one, but for DALI."""
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python3"
    code = "import site; print(site.getsitepackages()[0])"
    command = [str(python), "-c", code]
    place = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    paths = "".join(_line(path) for path in sys.path if Path(path).is_dir())
    (place / "packages.pth").write_text(paths + WITHOUT_DALI)
    return python


def _line(path: str) -> str:
    """Of a folder of packages the .pth files count, too: endcap may be installed by one."""
    if Path(path).name != "site-packages":
        return f"{path}\n"
    return f"import site; site.addsitedir({path!r})\n"
