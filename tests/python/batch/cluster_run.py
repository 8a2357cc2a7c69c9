"""Runs `endcap.batch` on a Ray cluster of two nodes, and kills one with its actor on the way.

A separate program: Ray's state is that of a process.

    cluster_run.py INPUT OUTPUT --repository R --kill-node-at 0.5

It prints the report, and whether the node was killed, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os

from endcap.batch import BatchPlan, BatchReport, PipelineSpec, run_batch

OBJECT_STORE_BYTES = 80 << 20  # of each node; the least that Ray takes is 75 MiB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--repository", required=True)
    parser.add_argument("--kill-node-at", type=float, required=True)
    arguments = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    node_options = {"num_cpus": 1, "object_store_memory": OBJECT_STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args=node_options)
    node = cluster.add_node(**node_options)
    killed = False

    def on_progress(progress: BatchReport) -> None:
        """Kill once a share of the images is done."""
        nonlocal killed
        share = progress.statuses.total() / (progress.total or 1)
        if share >= arguments.kill_node_at and not killed:
            killed = True
            cluster.remove_node(node, allow_graceful=False)
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
