"""Loads one model with perf_analyzer and with `endcap load`, in turn, and prints what both found.

python tests/peers/loaded_model.py CONCURRENCY REPEATS

It runs in the server's environment. The model takes the same time for every request, so that what a
busy machine does to a network's time is not in the figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from echo_model import write_model  # noqa: E402
from responding_model import CONFIG, MODEL  # noqa: E402

from benchmarks.server.perf_analyzer import LoadGenerator, Window  # noqa: E402
from endcap.server import ServerPorts, ServerSettings, TritonServer  # noqa: E402

SLEEP_S = 0.02
SLEEPING = MODEL.replace("    kind = encoded[:1]\n", f"    kind = b''\n    time.sleep({SLEEP_S})\n")
ENCODED = bytes(20_000)
OUTPUT_BYTES = 4096
WINDOW = Window(interval_ms=1000, max_trials=10, stability_percent=50)


def main(concurrency: str, repeats: str) -> None:
    """Prints the figures of each run as JSON."""
    runs: dict[str, list[Any]] = {"perf_analyzer": [], "endcap": []}
    with tempfile.TemporaryDirectory(prefix="endcap-") as scratch:
        image = Path(scratch) / "image.jpg"
        image.write_bytes(ENCODED)
        repository = write_model(Path(scratch) / "models", "detect", CONFIG, SLEEPING)
        ports = ServerPorts(http=0, grpc=0, metrics=0)
        settings = ServerSettings(ports=ports, client_shared_memory=True)  # perf_analyzer needs it
        with TritonServer(repository, settings) as server:
            url = server.grpc_url.removeprefix("grpc://")
            theirs = LoadGenerator(url)
            for _ in range(int(repeats)):
                load = theirs.run("detect", ENCODED, int(concurrency), WINDOW, OUTPUT_BYTES)
                runs["perf_analyzer"].append(asdict(load))
                runs["endcap"].append(_endcap(url, image, concurrency))
    print(json.dumps(runs))


def _endcap(url: str, image: Path, concurrency: str) -> Any:
    command = [sys.executable, "-m", "endcap", "load", str(image), "--url", url, "--json"]
    command += ["--concurrency", concurrency, "--duration", "3", "--shm", "system"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["levels"][0]


if __name__ == "__main__":
    main(*sys.argv[1:])
