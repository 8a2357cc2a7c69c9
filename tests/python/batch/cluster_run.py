"""Runs `endcap.batch` on a Ray cluster of two nodes, and kills an actor and a node on the way.

A program of its own: Ray's state is that of a process.

    cluster_run.py INPUT OUTPUT --repository R --kill-actor-at 0.2 --kill-node-at 0.5

It prints the report, and what was killed, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from endcap.batch import BatchPlan, BatchProgress, PipelineSpec, ServedModel, run_batch

OBJECT_STORE_BYTES = 80 << 20  # of each node; the least that Ray takes is 75 MiB


def actors_below(ancestor: int) -> list[int]:
    """The processes of Ray's actors that descend from a process."""
    parents, found = {}, []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
            if (folder / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                found.append(int(folder.name))
        except OSError:
            continue  # it has ended
    own = []
    for pid in found:
        above = pid
        while above > 1 and above != ancestor:
            above = parents.get(above, 0)
        if above == ancestor:
            own.append(pid)
    return own


class Saboteur:
    """Kills once a share of the images is done."""

    def __init__(
        self, cluster: Any, node: Any, actor_at: float | None, node_at: float | None
    ) -> None:
        self._cluster, self._node = cluster, node
        self._actor_at, self._node_at = actor_at, node_at
        self.killed: list[str] = []

    def __call__(self, progress: BatchProgress) -> None:
        share = progress.done / (progress.total or 1)
        if self._actor_at is not None and share >= self._actor_at:
            pids = actors_below(os.getpid())
            if pids:
                self._actor_at = None
                os.kill(pids[0], signal.SIGKILL)
                self.killed.append("actor")
        if self._node_at is not None and share >= self._node_at:
            self._node_at = None
            self._cluster.remove_node(self._node, allow_graceful=False)
            self.killed.append("node")
            self._cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--repository")
    parser.add_argument("--url")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--kill-actor-at", type=float)
    parser.add_argument("--kill-node-at", type=float)
    parser.add_argument("--die-at", type=float)
    arguments = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    node_options = {"num_cpus": 1, "object_store_memory": OBJECT_STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args=node_options)
    others = [cluster.add_node(**node_options) for _ in range(arguments.nodes - 1)]
    detector: PipelineSpec | ServedModel = (
        ServedModel((arguments.url,))
        if arguments.url
        else PipelineSpec.from_repository(arguments.repository)
    )
    plan = BatchPlan(
        (arguments.input,),
        detector,
        arguments.output,
        address=cluster.address,
        workers=arguments.nodes,
    )
    saboteur = Saboteur(
        cluster, others[-1] if others else None, arguments.kill_actor_at, arguments.kill_node_at
    )
    start, shown = time.monotonic(), [0.0]

    def on_progress(progress: BatchProgress) -> None:
        saboteur(progress)
        if arguments.die_at and progress.done >= arguments.die_at * (progress.total or 1):
            print("dying", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if time.monotonic() - shown[0] > 10:
            shown[0] = time.monotonic()
            print(f"{time.monotonic() - start:.0f} s: {progress.done} of {progress.total}",
                  file=sys.stderr, flush=True)  # fmt: skip

    report = run_batch(plan, on_progress=on_progress)
    statuses = dict(report.statuses)
    print(json.dumps({"statuses": statuses, "images": report.images, "killed": saboteur.killed}))
    cluster.shutdown()


if __name__ == "__main__":
    main()
