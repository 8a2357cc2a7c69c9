"""Data sets on Ray: tensors beside Ray's own reading of images, and `endcap batch` on two nodes.

    python -m benchmarks.data_sets                 some minutes
    python -m benchmarks.data_sets --images 300    rough figures

All ways have the same two CPUs, the same files and a Ray cluster of this machine, and take turns.
Starting Ray does not count; starting actors does. It writes benchmarks/results/data_sets.json.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks import images as photographs
from benchmarks import machine
from benchmarks.paths import BUILD, RESULTS, ROOT
from benchmarks.timing import cpu_count, cpus

CPUS = 2
ROUNDS = 3
SIZE, SHORTER = 224, 256
OURS = "endcap.batch: read_encoded, Preprocess"
READ_IMAGES = "Ray: read_images, torchvision transforms"
READ_BYTES = "Ray: read_binary_files, Pillow and torchvision transforms"
_MOST_STEPS = 1.0  # of 8 bits, mean difference of tensors
_OBJECT_STORE_BYTES = 1 << 30


def write_photographs(folder: Path, count: int) -> None:
    """Write photographs of about two megapixels as so many JPEG files."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("bus.jpg", "zidane.jpg")
    pictures = []
    for name in names:
        with Image.open(photographs.source("ultralytics", name)) as photograph:
            picture = photograph.convert("RGB").resize((1920, 1080), Image.Resampling.LANCZOS)
        stream = io.BytesIO()
        picture.save(stream, "JPEG", quality=90)
        pictures.append(stream.getvalue())
    for number in range(count):
        (folder / f"{number:05}.jpg").write_bytes(pictures[number % len(pictures)])


class Torchvision:
    """What people write: one image after the other, as torchvision's own weights prepare them."""

    def __init__(self) -> None:
        import torch
        from torchvision.transforms import v2

        torch.set_num_threads(1)
        self._transform = v2.Compose(
            [
                v2.Resize(SHORTER, antialias=True),
                v2.CenterCrop(SIZE),
                v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the tensors of decoded images, or of the bytes of files."""
        if "bytes" in batch:
            decoded = [Image.open(io.BytesIO(each)).convert("RGB") for each in batch["bytes"]]
        else:
            decoded = [Image.fromarray(each) for each in batch["image"]]
        return {"images": np.stack([self._transform(each).numpy() for each in decoded])}


def _actors() -> Any:
    import ray.data

    return ray.data.ActorPoolStrategy(min_size=1, max_size=CPUS)


def _ours(folder: Path) -> Any:
    from endcap.batch import Preprocess, read_encoded

    return read_encoded(folder).map_batches(
        Preprocess,
        fn_constructor_kwargs={"preset": "torchvision"},
        batch_size=32,
        batch_format="pyarrow",
        compute=_actors(),
    )


def _read_images(folder: Path) -> Any:
    import ray.data

    return ray.data.read_images(str(folder), mode="RGB").map_batches(
        Torchvision, batch_size=32, compute=_actors()
    )


def _read_bytes(folder: Path) -> Any:
    import ray.data

    return ray.data.read_binary_files(str(folder)).map_batches(
        Torchvision, batch_size=32, compute=_actors()
    )


WAYS: dict[str, Callable[[Path], Any]] = {
    OURS: _ours,
    READ_IMAGES: _read_images,
    READ_BYTES: _read_bytes,
}


def measure_tensors(folder: Path, count: int, rounds: int) -> dict[str, Any]:
    """Return images a second of each way, in turns, after their tensors were compared."""
    import ray
    from ray.data import DataContext

    ray.init(
        address="local",
        num_cpus=CPUS,
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
    )
    DataContext.get_current().enable_progress_bars = False
    few = folder.parent / "few"
    write_photographs(few, 4)
    tensors = {}
    for name, way in WAYS.items():
        every = np.concatenate([each["images"] for each in way(few).iter_batches()])
        order = np.argsort(every.reshape(len(every), -1).mean(1, dtype=np.float64), kind="stable")
        tensors[name] = every[order]  # Ray gives no order
    speeds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            start = time.perf_counter()
            done = sum(len(each["images"]) for each in way(folder).iter_batches(batch_size=32))
            if done != count:
                raise RuntimeError(f"{name} gave {done} of {count} images")
            speeds[name].append(count / (time.perf_counter() - start))
            print(f"{name}: {speeds[name][-1]:.1f} images/s", flush=True)
    ray.shutdown()
    step = 1 / 255 / 0.225
    results = {}
    for name in WAYS:
        steps = float(np.abs(tensors[name] - tensors[OURS]).mean(dtype=np.float64) / step)
        if steps > _MOST_STEPS:
            raise RuntimeError(f"{name} makes other tensors: {steps:.2f} steps of 8 bits apart")
        results[name] = {
            "images_per_second": statistics.median(speeds[name]),
            "low": min(speeds[name]),
            "high": max(speeds[name]),
            "ratio": statistics.median(speeds[OURS]) / statistics.median(speeds[name]),
            "mean_difference_steps": steps,
        }
    return results


def run_on_nodes(folder: Path, output: Path, nodes: int) -> float:
    """Return images a second of `endcap batch` on a cluster of nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    from endcap.batch import BatchPlan, BatchProgress, PipelineSpec, run_batch

    options: Any = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=options)
    for _ in range(nodes - 1):
        cluster.add_node(**options)
    spec = PipelineSpec.from_repository(ROOT / "model_repository")
    plan = BatchPlan((str(folder),), spec, str(output), address=cluster.address, workers=nodes)
    done: list[tuple[float, int]] = []

    def on_progress(progress: BatchProgress) -> None:
        done.append((time.perf_counter(), progress.done))

    run_batch(plan, on_progress=on_progress)
    cluster.shutdown()  # type: ignore[no-untyped-call]
    # All actors are at work once a part of each is done.
    (start, before), (end, after) = done[2 * nodes], done[-nodes]
    return (after - before) / (end - start)


def measure_nodes(folder: Path, rounds: int, python: Path) -> dict[str, Any]:
    """Return images a second on one node and on two, in turns, each in a process of its own."""
    speeds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for nodes in speeds:
            with tempfile.TemporaryDirectory() as output:
                command = [str(python), "-m", "benchmarks.data_sets", "--nodes", str(nodes),
                           "--folder", str(folder), "--output", f"{output}/results"]  # fmt: skip
                run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            speeds[nodes].append(float(run.stdout.split()[-1]))
            print(f"{nodes} nodes: {speeds[nodes][-1]:.1f} images/s", flush=True)
    medians = {nodes: statistics.median(each) for nodes, each in speeds.items()}
    return {"one": speeds[1], "two": speeds[2], "ratio": medians[2] / medians[1]}


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1500, help="of each way (1500)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--part", choices=["tensors", "nodes"], help="measure one only")
    parser.add_argument("--server-python", type=Path, default=ROOT / ".venv" / "bin" / "python",
                        help="of the environment that `make build` makes")  # fmt: skip
    parser.add_argument("--nodes", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help="of the JSON file")
    arguments = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if arguments.nodes:
        print(run_on_nodes(arguments.folder, arguments.output, arguments.nodes))
        return
    folder = BUILD / "bench-data-sets"
    path = arguments.output or RESULTS / "data_sets.json"
    document = json.loads(path.read_text()) if arguments.part and path.is_file() else {}
    about = {"machine": machine.describe(), "images": arguments.images}
    with cpus(min(CPUS, cpu_count())):
        if arguments.part in (None, "tensors"):
            write_photographs(folder / "photographs", arguments.images)
            rows = measure_tensors(folder / "photographs", arguments.images, arguments.rounds)
            document["tensors"] = {**about, "ways": rows}
        if arguments.part in (None, "nodes"):
            about["images"] = max(320, arguments.images // 2)
            write_photographs(folder / "for_nodes", about["images"])
            speeds = measure_nodes(folder / "for_nodes", arguments.rounds, arguments.server_python)
            document["nodes"] = {**about, **speeds}
    path.write_text(json.dumps(document, indent=1) + "\n")
    for name, row in document["tensors"]["ways"].items():
        print(f"{row['images_per_second']:8.1f} images/s  {row['ratio']:5.2f}x  {name}")
    print(f"one node to two: {document['nodes']['ratio']:.2f}x")


if __name__ == "__main__":
    main()
