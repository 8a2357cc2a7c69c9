"""The modules that the peers' tests share with the other tests.

tests/ itself stays off the path: torch would take its folder triton for the package of that name.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
