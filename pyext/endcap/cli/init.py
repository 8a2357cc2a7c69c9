"""endcap init: from an ONNX file to a model repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from endcap._system.scratch import scratch_folder
from endcap.cli.files import find_repository
from endcap.cli.options import Verbose
from endcap.errors import InvalidArgumentError
from endcap.repository.options import InitOptions, PostprocessBackend, PreprocessBackend, Runtime
from endcap.repository.plan import Plan, SummaryRow, make_plan
from endcap.repository.rendering import shell_word
from endcap.repository.trial_run import TrialLimits
from endcap.repository.writing import check_target, write_repository
from endcap.terminal.console import PlainConsole, printable
from endcap.terminal.failure import INTERRUPTED, report_errors, say, stopped_by_signals

EXAMPLES = """
**Examples**

- `endcap init yolov8n.onnx -o models`

- `endcap init resnet50.onnx -o models --preset torchvision --labels imagenet.txt`

- `endcap init detector.onnx -o models --head yolov5 --size 480,640 --score-threshold 0.4`

- `endcap init detector.onnx -o models --runtime tensorrt --fp16 --self-contained
  --triton-version 25.11`

**Exit code**: 0 when the repository was written, 2 when it could not be: the error message says
why, and nothing is left behind.
"""

_NETWORK = "Network"
_ANSWERS = "Answers"
_SERVING = "Serving"


def init(
    model: Annotated[Path, typer.Argument(help="The network, an ONNX file.", metavar="MODEL.onnx")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to make; it must be empty or not there.")
    ],
    head: Annotated[
        str | None,
        typer.Option(
            help="Family of the head, such as yolov8. Else found out.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="How images are prepared, such as ultralytics or torchvision. Else found out.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Height,width, or one number for both, of a network that takes any.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Class names, one a line. Else those in the file's metadata.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    num_classes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Where neither the head nor names tell.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    fp16: Annotated[
        bool,
        typer.Option("--fp16", help="Convert it to half precision.", rich_help_panel=_NETWORK),
    ] = False,
    score_threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="A detection's score must be greater. [default: 0.25]",
            show_default=False,
            rich_help_panel=_ANSWERS,
        ),
    ] = None,
    iou_threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="A box that overlaps a better one more is suppressed. [default: 0.7]",
            show_default=False,
            rich_help_panel=_ANSWERS,
        ),
    ] = None,
    max_detections: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rows of the answer. [default: 300]",
            show_default=False,
            rich_help_panel=_ANSWERS,
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Classes in a classifier's answer. [default: 5]",
            show_default=False,
            rich_help_panel=_ANSWERS,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other parameter of preprocess or postprocess; may be repeated.",
            show_default=False,
            rich_help_panel=_ANSWERS,
        ),
    ] = None,
    runtime: Annotated[
        Runtime | None,
        typer.Option(
            help="What runs the network: endcap_onnx and python are ONNX Runtime, in endcap's "
            "backend and in a Python-backend model. [default: endcap_onnx, or python where an "
            "output has to be converted]",
            show_default=False,
            rich_help_panel=_SERVING,
        ),
    ] = None,
    preprocess: Annotated[
        PreprocessBackend,
        typer.Option(
            help="What the first step runs in: the compiled backend, a Python-backend model on the "
            "same core, or a DALI pipeline, for such a model and for NVIDIA's DALI backend.",
            rich_help_panel=_SERVING,
        ),
    ] = PreprocessBackend.cpp,
    postprocess: Annotated[
        PostprocessBackend, typer.Option(help="Likewise the last step.", rich_help_panel=_SERVING)
    ] = PostprocessBackend.cpp,
    max_batch: Annotated[
        int,
        typer.Option(min=1, help="Most images in one batch.", rich_help_panel=_SERVING),
    ] = 16,
    instances: Annotated[
        int,
        typer.Option(
            min=1,
            help="Copies of the network, on each GPU where there are any.",
            rich_help_panel=_SERVING,
        ),
    ] = 1,
    name: Annotated[
        str | None,
        typer.Option(
            help="Of the ensemble, and before the names of its steps. Else detect or classify.",
            show_default=False,
            rich_help_panel=_SERVING,
        ),
    ] = None,
    self_contained: Annotated[
        bool,
        typer.Option(
            "--self-contained",
            help="Put the backends into the models' folders, for servers without endcap.",
            rich_help_panel=_SERVING,
        ),
    ] = False,
    triton_version: Annotated[
        str | None,
        typer.Option(
            help="Release that will serve it, such as 25.11, to use what it knows. Else nothing "
            "newer than 24.10.",
            show_default=False,
            rich_help_panel=_SERVING,
        ),
    ] = None,
    trial_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Longest time for running the network on noise.",
            rich_help_panel=_NETWORK,
        ),
    ] = TrialLimits.timeout_s,
    trial_memory: Annotated[
        float,
        typer.Option(
            metavar="GIB",
            help="Most memory for that.",
            rich_help_panel=_NETWORK,
        ),
    ] = TrialLimits.memory_gib,
    verbose: Verbose = False,
) -> None:
    """Write a model repository around an ONNX network: JPEG in, detections or classes out.

    Reads the network's graph and metadata, runs it on noise, and prints what it found and why.
    Where it cannot be sure it asks for --head or --preset and names the candidates. The network
    runs in a process of its own, which ends at --trial-timeout and --trial-memory.

    The folder holds preprocess, the network, postprocess and the ensemble that joins them, each
    with a config.pbtxt to read and change, and a README with the calls to make.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        options = InitOptions(
            runtime=runtime,
            preprocess=preprocess,
            postprocess=postprocess,
            head=head,
            preset=preset,
            size=_size(size),
            labels=labels,
            num_classes=num_classes,
            settings=_settings(
                settings or [],
                score_threshold=score_threshold,
                iou_threshold=iou_threshold,
                max_detections=max_detections,
                top_k=top_k,
            ),
            max_batch=max_batch,
            instances=instances,
            name=name,
            fp16=fp16,
            self_contained=self_contained,
            triton_version=triton_version,
            trial_limits=TrialLimits(trial_timeout, trial_memory),
        )
        check_target(output)
        shipped = find_repository()
        with scratch_folder("init") as scratch:
            with PlainConsole(stderr=True).status("Trying the network"):  # on a terminal only
                plan = make_plan(model, options, scratch)
            write_repository(plan, output, shipped=shipped)
        _report(plan, output)


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.split(",")
    if len(sides) > 2 or not all(side.strip().isdecimal() and int(side) for side in sides):
        raise InvalidArgumentError(
            f"--size is '{text}'; give height,width in pixels, such as 480,640, or one number"
        )
    return int(sides[0]), int(sides[-1])


def _settings(given: list[str], **named: float | None) -> dict[str, str]:
    settings = {key: str(value) for key, value in named.items() if value is not None}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidArgumentError(f"--set is '{pair}'; give NAME=VALUE, such as upscale=false")
        if key.strip() in settings:
            raise InvalidArgumentError(f"{key.strip()} is given twice; leave one out")
        settings[key.strip()] = value.strip()
    return settings


def _report(plan: Plan, output: Path) -> None:
    console = PlainConsole(highlight=False)
    table = Table.grid(padding=(0, 2))
    for row in plan.summary():
        table.add_row(*_cells(row))
    console.print(Text(printable(plan.network.path.name), style="bold"))
    console.print(table)
    names = plan.names
    models = ", ".join((names.preprocess, names.network, names.postprocess, names.ensemble))
    console.print("\n[bold green]Wrote[/]", Text(printable(f"{output}: {models}")), soft_wrap=True)
    if plan.runtime is Runtime.tensorrt:
        _print(console, f"The engine is still missing; {output / 'README.md'} has the command.")
    if plan.network_batch < plan.options.max_batch:
        say(
            "endcap: the network takes one image at a time, which wastes what batches would give; "
            "a dynamic batch is an option of its exporter"
        )
    folder = shell_word(f"./{output}" if str(output).startswith("-") else str(output))
    first = "endcap dali build, then " if plan.options.preprocess is PreprocessBackend.dali else ""
    if plan.runtime in (Runtime.endcap_onnx, Runtime.python):
        _print(console, f"Next: {first}endcap serve {folder}")
    else:
        needed = f"with a server that has the backend {plan.runtime.value}"
        _print(console, f"Next: {first}endcap serve {folder} --tritonserver PATH, {needed}")
    _print(console, f"Then: endcap infer PHOTO --model {names.ensemble}")


def _print(console: Console, line: str) -> None:
    """Print a line as it is, with no colours in it and no breaks."""
    console.print(Text(printable(line)), soft_wrap=True)


def _cells(row: SummaryRow) -> tuple[Text, Text, Text]:
    return (
        Text(f"  {row.name}", no_wrap=True),
        Text(printable(row.value), style="cyan", overflow="fold"),
        Text(printable(row.reason), style="dim", overflow="fold"),
    )
