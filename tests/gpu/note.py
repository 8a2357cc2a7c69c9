"""Notes in a JSON file what became of a step of run.sh, at once: the run may be ended any time.

python tests/gpu/note.py FILE {passed,failed,left_out} SENTENCE...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def note(file: Path, kind: str, sentences: list[str]) -> None:
    """Adds to `checks` in the file, which may be absent; the benchmark's part stays as it is."""
    content = json.loads(file.read_text()) if file.exists() else {}
    content.setdefault("checks", {}).setdefault(kind, []).extend(sentences)
    file.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    note(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
