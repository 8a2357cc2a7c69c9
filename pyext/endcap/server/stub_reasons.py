"""What stubs in model folders say in a server's log, and what Triton's words about them mean."""

from __future__ import annotations

import re
from collections.abc import Iterable

_REFUSAL = re.compile(r"endcap stub: model '([^']+)': (.*)")
# The stub of the release raises the message under this name, with the place where it did.
_REPORTED = re.compile(r"^(?:\w+: )?EndcapStub: (.*?)(?: \(at \S+ <module>\))?$")
_ARCHIVE = re.compile(r"^(?:\w+: )?(archive_\w+\(\) failed.*)$")
_MEANING_OF_ARCHIVE = (
    "the archive of EXECUTION_ENV_PATH is broken off or no gzip-compressed tar ({said}); "
    "`endcap stub check` of the model's folder says where"
)


def refusals(lines: Iterable[str]) -> dict[str, str]:
    """Return the message of each model whose stub refused to start, by the server's log."""
    found: dict[str, str] = {}
    for line in lines:
        match = _REFUSAL.match(line)
        if match:
            found[match.group(1)] = match.group(2)
    return found


def explained(reason: str) -> str:
    """Return Triton's reason for a failed load, in words where it has none of its own."""
    reported = _REPORTED.match(reason)
    if reported:
        return reported.group(1)
    archive = _ARCHIVE.match(reason)
    return _MEANING_OF_ARCHIVE.format(said=archive.group(1)) if archive else reason
