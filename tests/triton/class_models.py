"""Classifiers of the shared server: several labels for an image, and classes of a taxonomy."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.triton.model_folders import tensor, write_postprocess

TREE = ["animal/dog/beagle", "animal/dog/husky", "animal/cat", "plant", "plant/tree/oak"]
LEAVES = ["beagle", "husky", "cat", "plant", "oak"]
THRESHOLD = 0.5
TOP_K = 3

_CLASSIFICATION = {"head": "classification", "num_classes": len(TREE), "top_k": TOP_K}
_TREE_FILE = {"tree.txt": "\n".join(TREE) + "\n"}
_SEPARATED = {"labels_file": "tree.txt", "labels_separator": "/"}

# Of one step; the server's classification takes the labels of the ensemble's own output.
_ENSEMBLE = """
platform: "ensemble"
max_batch_size: 8
input { name: "logits" data_type: TYPE_FP32 dims: [ 5 ] }
output { name: "class_labels" data_type: TYPE_STRING dims: [ 3 ] }
output { name: "class_paths" data_type: TYPE_STRING dims: [ 3 ] }
output {
  name: "class_probabilities" data_type: TYPE_FP32 dims: [ 5 ] label_filename: "tree.txt"
}
ensemble_scheduling { step {
  model_name: "classes_of_a_tree" model_version: -1
  input_map { key: "logits" value: "logits" }
  output_map { key: "class_labels" value: "class_labels" }
  output_map { key: "class_paths" value: "class_paths" }
  output_map { key: "class_probabilities" value: "class_probabilities" }
} }
"""


def write_class_models(repository: Path, variant: str) -> None:
    write = partial(write_postprocess, repository, variant=variant)
    several = {
        **_CLASSIFICATION,
        "activation": "sigmoid",
        "multi_label": "true",
        "score_threshold": THRESHOLD,
    }
    write(
        "several_classes",
        max_batch_size=8,
        parameters={**several, **_SEPARATED},
        files=_TREE_FILE,
    )
    write(
        "classes_of_a_tree",
        max_batch_size=8,
        parameters={**_CLASSIFICATION, **_SEPARATED},
        files=_TREE_FILE,
    )
    write(
        "classes_of_whole_lines",
        max_batch_size=8,
        parameters={**_CLASSIFICATION, "labels_file": "tree.txt"},
        files=_TREE_FILE,
    )
    write(
        "classes_as_paths_only",
        max_batch_size=8,
        parameters={**_CLASSIFICATION, "labels_file": "l.txt", "labels_separator": "::"},
        outputs=[tensor("class_paths", "TYPE_STRING", [-1])],
        files={"l.txt": "\r\n".join(line.replace("/", "::") for line in TREE)},
    )
    folder = repository / "classes_of_a_tree_ensemble"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(_ENSEMBLE)
    for name, text in _TREE_FILE.items():
        (folder / name).write_text(text)
