"""Takes out of an environment what tells where its packages came from, and by which password."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from endcap.environment.site_packages import files_of_conda

# The secrets of a channel's address: user:password@, and /t/TOKEN behind the host.
_USER = re.compile(r'(?<=://)[^/\s"]*@')
_TOKEN = re.compile(r'(://[^/\s"]*)/t/[^/\s"]+')

# The file in which pip notes a wheel's path: https://peps.python.org/pep-0610
_DIRECT_URL = "direct_url.json"


def without_secrets(text: str) -> str:
    """Return a text whose addresses have neither user, password nor token."""
    return _TOKEN.sub(r"\1", _USER.sub("", text))


def forget_origins(prefix: Path) -> None:
    """Clear what conda and pip have noted in an environment, which is not packed yet."""
    for record in (prefix / "conda-meta").glob("*.json"):
        text = record.read_text(encoding="utf-8")
        record.write_text(without_secrets(text), encoding="utf-8")
    of_conda = files_of_conda(prefix)
    for note in prefix.glob(f"lib/python3.*/site-packages/*.dist-info/{_DIRECT_URL}"):
        if str(note.relative_to(prefix)) not in of_conda:
            note.unlink()
            _strike_out(note)


def _strike_out(file: Path) -> None:
    """Take a file out of its distribution's list."""
    listing = file.with_name("RECORD")
    struck_out = f"{file.parent.name}/{file.name}"
    rows = csv.reader(io.StringIO(listing.read_text(encoding="utf-8")))
    kept = io.StringIO()
    csv.writer(kept, lineterminator="\n").writerows(row for row in rows if row[:1] != [struck_out])
    listing.write_text(kept.getvalue(), encoding="utf-8")
