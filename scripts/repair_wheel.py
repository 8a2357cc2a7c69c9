"""Repair a wheel by auditwheel, and describe the libraries in it in a bill of materials.

    python scripts/repair_wheel.py WHEEL BUILD_TREE FOLDER

auditwheel describes only the libraries that it copies into a wheel. endcap's libraries are copied
or linked by CMake, so this script looks up their system packages by auditwheel's own writer, adds
`sboms/endcap.cdx.json` to WHEEL, and then lets auditwheel write the tagged wheel to FOLDER. Runs in
an environment with the dependency group `wheel`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from auditwheel.sboms import create_sbom_for_wheel


def find_libraries(tree: Path) -> list[Path]:
    """Return a file of each library that a build tree has bundled, linked or included."""
    text = (tree / "CMakeCache.txt").read_text(encoding="utf-8")
    cache = dict(re.findall(r"^([^#/:\n]+):[A-Z]+=(.*)$", text, re.MULTILINE))
    files = [cache[f"ENDCAP_{name}_LIBRARY"] for name in ("jpeg", "png", "webp", "gif")]
    files.append(f"{cache['ENDCAP_HIGHWAY_INCLUDE_DIR']}/hwy/highway.h")
    files.append(f"{cache['nlohmann_json_DIR']}/nlohmann_jsonConfig.cmake")
    for name in ("libstdc++.a", "libgcc.a"):
        command = [cache["CMAKE_CXX_COMPILER"], f"-print-file-name={name}"]
        files.append(subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.strip())
    if cache.get("ENDCAP_CUDART"):
        files.append(cache["ENDCAP_CUDART"])
    return [Path(file).resolve() for file in files]


def main() -> int:
    """Repair the wheel that the command line names."""
    wheel, tree, folder = map(Path, sys.argv[1:])
    bill = create_sbom_for_wheel(wheel.name, find_libraries(tree))
    with zipfile.ZipFile(wheel, "a") as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        path = metadata.replace("METADATA", "sboms/endcap.cdx.json")
        if bill is not None and path not in archive.namelist():
            archive.writestr(path, json.dumps(bill, indent=1) + "\n")
    os.umask(0o022)  # auditwheel's files have its modes, which go into the wheel
    auditwheel = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto"]
    return subprocess.run([*auditwheel, "--wheel-dir", folder, wheel], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
