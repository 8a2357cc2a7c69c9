"""A report of an environment's own Python on itself, printed as JSON.

The module runs in that Python: it is written for 3.8 and later and imports nothing of endcap. Its
arguments are the names of distributions whose modules it imports.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import sys


def top_level_modules(name: str) -> list[str]:
    """Return the modules of a distribution; none where it is not one of Python's."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return []
    modules = set((distribution.read_text("top_level.txt") or "").split())
    for path in [] if modules else distribution.files or ():
        first = path.parts[0]
        if path.name == "__init__.py" and len(path.parts) == 2:
            modules.add(first)
        elif len(path.parts) == 1 and path.suffix in (".py", ".so"):
            modules.add(first.partition(".")[0])
    modules = {each for each in modules if each.isidentifier() and not each.startswith("_")}
    guess = name.replace("-", "_")
    if not modules and importlib.util.find_spec(guess) is not None:
        modules = {guess}
    return sorted(modules)


def import_all(names: list[str]) -> dict[str, str | None]:
    """Import modules up to the first that fails; return the error of each, or None."""
    results: dict[str, str | None] = {}
    for name in names:
        try:
            importlib.import_module(name)
            results[name] = None
        except BaseException as error:  # whatever a module raises is its result
            results[name] = f"{type(error).__name__}: {error}"
            break
    return results


def main() -> None:
    """Import the modules of the named distributions, and print the report."""
    modules = [module for name in sys.argv[1:] for module in top_level_modules(name)]
    imports = import_all(modules)
    numpy = sys.modules.get("numpy")
    report = {
        "python": "{}.{}".format(*sys.version_info[:2]),
        "prefix": sys.prefix,
        "numpy": getattr(numpy, "__version__", None),
        "imports": imports,
    }
    sys.stdout.write("\n" + json.dumps(report) + "\n")


main()
