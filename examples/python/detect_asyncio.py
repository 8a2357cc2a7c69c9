"""Detections from an event loop, as a web service would request them: one task per image.

    pip install "$(ls endcap-0.1.0-*.whl)[client]"
    python examples/python/detect_asyncio.py photo.jpg another.jpg --url http://127.0.0.1:8000

All tasks share one client, which limits the requests in flight. Prints a line for each image when
its response arrives: file, milliseconds, and the number of detections of each class.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence

from endcap import EndcapError
from endcap.client import AsyncDetectionClient


async def handle(client: AsyncDetectionClient, file: str) -> bool:
    """Handle one request of a service; return whether it succeeded."""
    result = await client.detect_one(file)
    if not result.ok:
        print(f"{result.image}: {result.status}: {result.error}", file=sys.stderr)
        return False
    counts = Counter(detection.label for detection in result.detections)
    said = ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))
    print(f"{result.image}  {result.latency_ms:.1f} ms  {said or 'nothing'}")
    return True


async def detect(url: str, model: str, files: Sequence[str]) -> bool:
    """Start a task for each file; return whether all went well."""
    async with AsyncDetectionClient(url, model=model, concurrency=8) as client:
        return all(await asyncio.gather(*(handle(client, file) for file in files)))


def main() -> int:
    """Return 1 where a file failed."""
    parser = argparse.ArgumentParser(description="Detections in JPEG files, by asyncio.")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--url", default="grpc://127.0.0.1:8001", help="or http://HOST:PORT")
    parser.add_argument("--model", default="detect")
    options = parser.parse_args()
    try:
        return 0 if asyncio.run(detect(options.url, options.model, options.files)) else 1
    except EndcapError as error:
        sys.exit(f"detect_asyncio.py: {error}")


if __name__ == "__main__":
    sys.exit(main())
