"""docs/exports.md: what `endcap init` makes of networks that other packages have exported.

python scripts/exports_page.py > docs/exports.md

The results are those of tests/peers/exported_networks.py, which exports the networks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "tests" / "peers" / "exports.json"

INTRODUCTION = """\
# Exports

Made from test results by `python scripts/exports_page.py > docs/exports.md`; a test compares.

Find your network, and export it as its row says: `endcap init` takes it with the options of the
last column. What a [head](heads.md) and a [preset](parameters.md#presets) are is on their pages,
how they are recognised on [another](init.md). Weights were random: the rows say nothing of
accuracy.
"""

NOTES = """\
## Commands

For a classifier of torchvision; `init` needs to be told that the numbers are classes, and their
recipe:

```py
import torch
import torchvision

weights = torchvision.models.ResNet50_Weights.DEFAULT
open("names.txt", "w").write("\\n".join(weights.meta["categories"]))
torch.onnx.export(
    torchvision.models.resnet50(weights=weights).eval(),
    torch.zeros(1, 3, 224, 224),
    "resnet50.onnx",
    dynamo=False,
    input_names=["images"],
    output_names=["logits"],
    dynamic_axes={{"images": {{0: "batch"}}, "logits": {{0: "batch"}}}},
)
```

```sh
endcap init resnet50.onnx --head classification --preset torchvision --set resize_shorter=232 \\
  --labels names.txt -o models
```

The preset is the recipe of torchvision's older weights, such as `ResNet50_Weights.IMAGENET1K_V1`: a
shorter side of 256 pixels, bilinear. Others differ, and with another recipe scores are wrong
without an error. These are the options for the weights above:

```py
recipe = weights.transforms()
options = {{
    "resize_shorter": recipe.resize_size[0],
    "interpolation": recipe.interpolation.value,
    "mean": ",".join(map(str, recipe.mean)),
    "std": ",".join(map(str, recipe.std)),
}}
print(*[f"--set {{name}}={{value}}" for name, value in options.items()])
```

| `weights.transforms()` | `endcap init` |
|---|---|
| `resize_size` | `--set resize_shorter=232` |
| `crop_size` | the size of the network's input: the zeros in the export are of this size |
| `interpolation` | `--set interpolation=bicubic` where it is not bilinear |
| `mean`, `std` | `--set mean=0.5,0.5,0.5 --set std=0.5,0.5,0.5` where they are not the preset's |

For a detector of torchvision, at the size that it works at:

```py
torch.onnx.export(
    torchvision.models.detection.fcos_resnet50_fpn(weights="DEFAULT").eval(),
    torch.rand(1, 3, 800, 1216),
    "fcos.onnx",
    dynamo=False,
    input_names=["images"],
    output_names=["boxes", "scores", "labels"],
)
```

Several networks are served by one server from one folder: make each with a `--name` of its own into
a folder of its own, and copy the models together: `cp -r models_a/*/ models_b/*/ models/`.

## What to know

- RetinaNet, FCOS and the R-CNNs of torchvision resize what they are given to a shorter side of 800
  pixels. Export them at such a size, in the shape of your pictures: served pictures are letterboxed
  to it. Of one exported at 640x640 the detections are those of PyTorch for the padded square, at
  another scale than for the picture itself.
- torchvision's detectors take `dynamo=False`: the default exporter of torch {torch} refuses them,
  as their control flow depends on values. RT-DETRv2 and D-FINE take it as well: that exporter lacks
  an operator of theirs.
- Of Mask R-CNN and Keypoint R-CNN boxes, scores and classes are served; masks and keypoints are not
  read.
- Their class ids begin with 1, as 0 is for no object. SSD and R-CNN return class 1 as 0, so that 90
  names are given for COCO; RetinaNet and FCOS have a score for 0 as well, and are given 91, so
  that their ids are greater by one.
- `detections`, `end2end` and their like are finished inside the network: nothing is suppressed
  again, and what its own thresholds have left out (`conf` of `yolo export`, `score_thresh` of
  torchvision) no lower `--score-threshold` brings back; `endcap init` warns of one.
- Ultralytics' `nms=True` exports suppression for as many images as `batch` says, one by default,
  also with `dynamic=True`: of a larger batch the other images would get no detections. `endcap
  init` reads that from the metadata, else by running a full batch of equal images, and writes
  `max_batch_size` accordingly. Leave out `nms=True` for batches of any size: `postprocess`
  suppresses.
- Ultralytics' own pipeline leaves out detections whose mask has no pixel; endcap returns them, with
  empty masks.
- Networks of transformers and timm need no options where `save_pretrained`, `optimum-cli export
  onnx` or `save_for_hf` has put `config.json` and `preprocessor_config.json` beside the ONNX file.
  Elsewhere `--preset` and `--labels` say what those files say.
- Images are prepared as timm's transforms prepare them, bit for bit but for the last of a float32,
  and as transformers' processors do within a step of 255. Where the margin of a crop is odd,
  transformers' crop may lie one pixel further up or left than torchvision's, which endcap follows.
- DETR's and YOLOS' processors keep the aspect ratio; an exported network takes one size, and its
  images are stretched to it.
- YOLOv4's confidences are objectness times class score already, and its boxes corners in fractions
  of the image. Its code takes the best class of a box, and so does endcap.
- Refused by name, whatever the options: SCRFD's and RetinaFace's scores, boxes and landmarks of
  several levels, SimCC, heatmaps of poses, semantic maps, depth maps, YOLOv5's masks and
  TensorFlow's detectors.
- With outputs that a head does not read, and that [its section](heads.md) does not list, a network
  is refused unless `--head` names the family. What is left unread is printed.
- The other networks at the end are tiny ones with the outputs that their exporters document; the
  numbers of classes are those of the tests.
- Of other files, such as `.pt`, `.engine`, `.tflite` and a SavedModel, `endcap init` names the
  command that makes an ONNX file of them, or the ONNX file beside them.
"""


def _table(rows: Iterable[Mapping[str, str]]) -> str:
    lines = ["| network | exported by | head | preset | options |", "|---|---|---|---|---|"]
    for row in rows:
        head = f"`{row['head']}`" + (", the rest is not read" if row["without"] else "")
        preset = f"`{row['preset']}`" + (f", `{row['fit']}`" if row["fit"] else "")
        options = f"`{row['options']}`" if row["options"] else "none"
        cells = [row["network"], f"`{row['exporter']}`", head, preset, options]
        if row["exporter"].startswith(("its", "their")):
            cells[1] = row["exporter"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the page."""
    results = json.loads(RESULTS.read_text())
    packages = results["packages"]
    parts = [INTRODUCTION.strip()]
    listed = ", ".join(f"{name} {version}" for name, version in packages.items())
    parts.append(f"Exported with {listed}.")
    for library, rows in groupby(results["exports"], key=lambda row: row["library"]):
        parts += [f"## {library[0].upper() if library[0] == 'o' else library[0]}{library[1:]}"]
        parts.append(_table(rows))
    parts.append(NOTES.strip().format(**packages))
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
