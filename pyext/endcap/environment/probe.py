"""What an environment's own Python says of itself; printed as JSON.

It is run by that Python, so it is written for any from 3.8 on and imports nothing of endcap. Its
arguments are the names of distributions whose modules it imports.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import sys


def top_level_modules(name: str) -> list[str]:
    """The names that a distribution can be imported by; none where it is not one of Python's."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return []
    found = set((distribution.read_text("top_level.txt") or "").split())
    for path in [] if found else distribution.files or ():
        first = path.parts[0]
        if path.name == "__init__.py" and len(path.parts) == 2:
            found.add(first)
        elif len(path.parts) == 1 and path.suffix in (".py", ".so"):
            found.add(first.partition(".")[0])
    found = {each for each in found if each.isidentifier() and not each.startswith("_")}
    guess = name.replace("-", "_")
    if not found and importlib.util.find_spec(guess) is not None:
        found = {guess}
    return sorted(found)


def import_all(names: list[str]) -> dict[str, str | None]:
    """Modules up to the first that fails, each with the error's text or None."""
    results: dict[str, str | None] = {}
    for name in names:
        try:
            importlib.import_module(name)
            results[name] = None
        except BaseException as error:  # whatever a module raises is its answer
            results[name] = f"{type(error).__name__}: {error}"
            break
    return results


def main() -> None:
    """Import what it is told to, and print what it has found."""
    modules = [module for name in sys.argv[1:] for module in top_level_modules(name)]
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
