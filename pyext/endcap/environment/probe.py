"""What an environment's own Python says of itself; printed as JSON.

It is run by that Python, so it is written for any from 3.8 on and imports nothing of endcap. Its
arguments are the names of distributions whose modules it imports.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys


def top_level_modules(distribution: importlib.metadata.Distribution) -> list[str]:
    """The names that a distribution can be imported by."""
    listed = (distribution.read_text("top_level.txt") or "").split()
    found = set(listed)
    if not found:
        for path in distribution.files or ():
            first = path.parts[0]
            if path.name == "__init__.py" and len(path.parts) == 2:
                found.add(first)
            elif len(path.parts) == 1 and path.suffix in (".py", ".so"):
                found.add(first.partition(".")[0])
    return sorted(name for name in found if not name.startswith("_") and name.isidentifier())


def import_all(names: list[str]) -> dict[str, str | None]:
    """What became of each module: its name, and the error's text or None."""
    results: dict[str, str | None] = {}
    for name in names:
        try:
            importlib.import_module(name)
            results[name] = None
        except BaseException as error:  # whatever a module raises is its answer
            results[name] = f"{type(error).__name__}: {error}"
    return results


def main() -> None:
    """Imports what it is told to, and prints what it has found."""
    modules: list[str] = []
    for name in sys.argv[1:]:
        try:
            modules += top_level_modules(importlib.metadata.distribution(name))
        except importlib.metadata.PackageNotFoundError:
            continue  # a package of conda that is none of Python's
    imports = import_all(modules)
    numpy = sys.modules.get("numpy")
    answer = {
        "python": "{}.{}".format(*sys.version_info[:2]),
        "prefix": sys.prefix,
        "numpy": getattr(numpy, "__version__", None),
        "imports": imports,
    }
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


main()
