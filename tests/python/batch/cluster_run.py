"""Runs `endcap.batch` on a Ray cluster of two nodes, and kills an actor and a node on the way.

A separate program: Ray's state is that of a process.

    cluster_run.py INPUT OUTPUT --repository R --kill-actor-at 0.2 --kill-node-at 0.5

It prints the report, and what was killed, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path

from endcap.batch import BatchPlan, BatchReport, PipelineSpec, run_batch

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--repository", required=True)
    parser.add_argument("--kill-actor-at", type=float, required=True)
    parser.add_argument("--kill-node-at", type=float, required=True)
    arguments = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    node_options = {"num_cpus": 1, "object_store_memory": OBJECT_STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args=node_options)
    node = cluster.add_node(**node_options)
    killed: list[str] = []

    def on_progress(progress: BatchReport) -> None:
        """Kill once a share of the images is done."""
        share = progress.statuses.total() / (progress.total or 1)
        pids = actors_below(os.getpid())
        if share >= arguments.kill_actor_at and pids and "actor" not in killed:
            os.kill(pids[0], signal.SIGKILL)
            killed.append("actor")
        if share >= arguments.kill_node_at and "node" not in killed:
            cluster.remove_node(node, allow_graceful=False)
            killed.append("node")
            cluster.add_node(**node_options)

    detector = PipelineSpec.from_repository(arguments.repository)
    plan = BatchPlan(
        (arguments.input,), detector, arguments.output, address=cluster.address, workers=2
    )
    report = run_batch(plan, on_progress=on_progress)
    print(json.dumps({"statuses": report.statuses, "images": report.images, "killed": killed}))
    cluster.shutdown()


if __name__ == "__main__":
    main()
