"""A report of an environment's own Python on itself, printed as JSON.

The module runs in that Python and imports nothing of endcap. Its arguments are the canonical names
of distributions whose modules it imports.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import re
import sys


def _import_modules(names: list[str]) -> str | None:
    """Import the modules of distributions up to the first that fails; return its error."""
    modules = [each.replace("-", "_") for each in names]  # of most, and of those without a RECORD
    modules = [each for each in modules if importlib.util.find_spec(each) is not None]
    list_modules = getattr(importlib.metadata, "packages_distributions", dict)  # since Python 3.10
    for module, distributions in list_modules().items():
        canonical = {re.sub(r"[-_.]+", "-", each).lower() for each in distributions}
        if module.isidentifier() and not module.startswith("_") and canonical & {*names}:
            modules.append(module)
    for module in modules:
        try:
            importlib.import_module(module)
        except BaseException as error:  # whatever a module raises is its result
            return f"{module}: {type(error).__name__}: {error}"
    return None


def main() -> None:
    """Import the modules of the named distributions, and print the report."""
    report = {
        "python": "{}.{}".format(*sys.version_info[:2]),
        "prefix": sys.prefix,
        "error": _import_modules(sys.argv[1:]),
        "numpy": getattr(sys.modules.get("numpy"), "__version__", None),
    }
    sys.stdout.write("\n" + json.dumps(report) + "\n")


main()
