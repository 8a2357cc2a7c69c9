"""endcap init: from an ONNX file to a model repository."""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from endcap.cli.console import PlainConsole, printable, say
from endcap.cli.files import find_repository
from endcap.cli.options import command, panel, read_settings
from endcap.errors import InvalidArgumentError
from endcap.preprocess import presets
from endcap.repository.options import HEAD_PARAMETERS, InitOptions
from endcap.repository.plan import Plan, make_plan
from endcap.repository.writing import check_target, write_repository

EXAMPLES = """
**Examples**

- `endcap init yolov8n.onnx`

- `endcap init resnet50.onnx -o models --preset torchvision --set resize_shorter=232
  --labels imagenet.txt`

- `endcap init detector.onnx -o models --head yolov5 --size 480,640 --set score_threshold=0.4`

- `endcap init detector.onnx -o models --set color=bgr --set max_candidates=1000`

- `endcap init detector.onnx -o models --runtime tensorrt --self-contained`

**Exit code**: 0 when the repository was written, 2 when it could not be: the error message says
why, and nothing is left behind.
"""

DEFAULT_OUTPUT = Path("models")
_in_network = panel("Network")
_in_results = panel("Results")
_in_serving = panel("Serving")
_OPTIONS = {
    "head": _in_network(
        f"Family of the head: {', '.join(HEAD_PARAMETERS)}; or none, which returns the "
        "network's outputs unread. Default: recognised from the network."
    ),
    "preset": _in_network(
        f"Preprocessing that the network was trained with: {', '.join(presets())}. Default: "
        "recognised from the network."
    ),
    "labels": _in_network(
        "File of class names, one per line. Default: those of the network's metadata."
    ),
    "num_classes": _in_network(
        "Number of classes. Default: that of the head or the class names.", min=1
    ),
    "columns": _in_network(
        "What the columns of rows with finished detections are: image,box,score,class for example "
        "(YOLO-NAS), or image,box,class,score (YOLOv7). Default: recognised from the values of the "
        "trial run."
    ),
    "trial_timeout": _in_network(
        "Longest time of the trial run of the network on noise.",
        metavar="SECONDS",
        min=0.1,
        max=1_000_000,
    ),
    "trial_memory": _in_network(  # the least is that of Python with ONNX Runtime alone
        "Most memory of the trial run.", metavar="GIB", min=0.5, max=2**20
    ),
    "runtime": _in_serving(
        "Backend of the network; endcap_onnx is ONNX Runtime in endcap's backend."
    ),
    "preprocess": _in_serving(
        "Backend of the first step: compiled, a Python-backend model on the same core, or a DALI "
        "pipeline in a Python-backend model or NVIDIA's DALI backend."
    ),
    "postprocess": _in_serving("Backend of the last step."),
    "max_batch": _in_serving("Largest batch; with --tile, most tiles of an image.", min=1),
    "tile": _in_serving(
        "Run the network on tiles of the image of that many pixels a side, and merge their "
        "detections, for objects that are small in large images.",
        min=1,
    ),
    "instances": _in_serving("Instances of the network, on each GPU where there are GPUs.", min=1),
    "name": _in_serving(
        "Name of the ensemble, and prefix of its steps. Default: detect, classify or predict."
    ),
    "self_contained": _in_serving(
        "Copy the backends into the models' folders, for servers without endcap.",
        "--self-contained",
    ),
}


@command(options=_OPTIONS)
def init(
    model: Annotated[Path, typer.Argument(help="The network, an ONNX file.", metavar="MODEL.onnx")],
    options: InitOptions,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to create, or an empty one.")
    ] = DEFAULT_OUTPUT,
    size: Annotated[
        str | None,
        _in_network(
            "Height,width, or one number for both, of a network with a dynamic input size."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        _in_results(
            "A parameter of preprocess or postprocess, such as color=bgr or score_threshold=0.4; "
            "may be repeated. In Python, `help(endcap.Preprocessor)` and "
            "`help(endcap.Postprocessor)` list them.",
            "--set",
            metavar="NAME=VALUE",
        ),
    ] = None,
) -> None:
    """Write a model repository around an ONNX network: JPEG in, detections or classes out.

    Reads the network's graph and metadata, runs it on noise, and prints its decisions with their
    reasons. An ambiguous network is refused with the candidates for --head or --preset. The network
    runs in a separate process, which ends at --trial-timeout and --trial-memory.

    The folder holds the models preprocess, the network, postprocess and their ensemble, each with a
    config.pbtxt, and a README with example calls.
    """
    options = dataclasses.replace(options, size=_size(size), settings=read_settings(settings or ()))
    _report(write_models(model, options, output), output)


def write_models(model: Path, options: InitOptions, output: Path) -> Plan:
    """Write the repository of a network to `output`; raise what `make_plan` and others do."""
    check_target(output)
    shipped = find_repository()
    with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        with PlainConsole(stderr=True).status("Trying the network"):  # on a terminal only
            plan = make_plan(model, options, scratch)
        write_repository(plan, output, shipped=shipped)
    return plan


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.split(",")
    if len(sides) > 2 or not all(side.strip().isdecimal() and int(side) for side in sides):
        raise InvalidArgumentError(
            f"--size is '{text}'; give height,width in pixels, such as 480,640, or one number"
        )
    return int(sides[0]), int(sides[-1])


def print_decisions(plan: Plan) -> None:
    """Print a table of what was decided about a network."""
    console = PlainConsole(highlight=False)
    table = Table.grid(padding=(0, 2))
    for row in plan.summary():
        table.add_row(
            Text(f"  {row.name}", no_wrap=True),
            Text(printable(row.value), style="cyan", overflow="fold"),
            Text(printable(row.reason), style="dim", overflow="fold"),
        )
    console.print(Text(printable(plan.network.path.name), style="bold"))
    console.print(table)


def _report(plan: Plan, output: Path) -> None:
    print_decisions(plan)
    console = PlainConsole(highlight=False)
    names = plan.names
    models = ", ".join(names.all)
    console.print("\n[bold green]Wrote[/]", Text(printable(f"{output}: {models}")), soft_wrap=True)
    if plan.options.runtime == "tensorrt":
        print(printable(f"The TensorRT engine is missing; {output / 'README.md'} has the command."))
    if plan.batch_advice:
        say(
            f"endcap: the network takes {plan.batch_text}, which is slower than batches of "
            f"{plan.options.max_batch}; {plan.batch_advice}"
        )
    folder = shlex.quote(f"./{output}" if str(output).startswith("-") else str(output))
    first = "endcap dali build, then " if plan.options.preprocess == "dali" else ""
    if plan.options.runtime == "endcap_onnx":
        print(printable(f"Next: {first}endcap serve {folder}"))
    else:
        needed = f"with a server that has the backend {plan.options.runtime}"
        print(printable(f"Next: {first}endcap serve {folder} --tritonserver PATH, {needed}"))
    print(printable(f"Then: endcap infer PHOTO --model {names.ensemble}"))
