"""A data set of 10,000 JPEG files on a Ray cluster of two nodes, with everything killed once.

    cluster_soak.py --images 10000

The first run's program is killed when two fifths are done. The second run continues, and loses an
actor and a node. There must be one row for each image, with the status of its content, and files
of the first run must not be made again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))

from data_sets import write_data_set  # noqa: E402

REPOSITORY = HERE.parents[2] / "model_repository"


def run(photos: Path, output: Path, *options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "cluster_run.py"), str(photos), str(output),
               "--repository", str(REPOSITORY), *map(str, options)]  # fmt: skip
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)


def soak(folder: Path, images: int, damaged: int) -> dict[str, Any]:
    photos, output = folder / "photos", folder / "results"
    write_data_set(photos, images, damaged=damaged)
    start = time.monotonic()
    first = run(photos, output, "--die-at", 0.4)
    assert first.returncode < 0, "the first run was not killed"
    before = {path.name: path.stat().st_mtime_ns for path in output.glob("part-*")}
    assert before
    second = run(photos, output, "--kill-actor-at", 0.6, "--kill-node-at", 0.8)
    assert second.returncode == 0
    report = json.loads(second.stdout.splitlines()[-1])
    assert report["killed"] == ["actor", "node"]
    after = {path.name: path.stat().st_mtime_ns for path in output.glob("part-*")}
    assert after.items() >= before.items(), "a finished file was made again"
    rows = [row for path in sorted(output.glob("part-*"))
            for row in pq.read_table(path, columns=["path", "status"]).to_pylist()]  # fmt: skip
    paths = Counter(row["path"] for row in rows)
    assert len(paths) == images
    assert set(paths.values()) == {1}
    statuses = Counter(row["status"] for row in rows)
    assert statuses == Counter(ok=images - damaged, corrupt_image=damaged)
    return {
        "images": images,
        "statuses": dict(statuses),
        "files": len(after),
        "files_of_the_killed_run": len(before),
        "killed": ["driver", *report["killed"]],
        "seconds": round(time.monotonic() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--damaged", type=int, default=100)
    parser.add_argument("--output", type=Path, help="of the JSON report")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = soak(Path(folder), arguments.images, arguments.damaged)
    text = json.dumps(report, indent=1)
    print(text)
    if arguments.output:
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
