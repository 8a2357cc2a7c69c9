"""endcap init: from an ONNX file to a model repository."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from endcap.cli.console import (
    INTERRUPTED,
    PlainConsole,
    printable,
    report_errors,
    say,
    stopped_by_signals,
)
from endcap.cli.files import find_repository
from endcap.cli.options import Verbose, read_settings, refused_option
from endcap.errors import InvalidArgumentError
from endcap.parameters import postprocess_defaults
from endcap.preprocess import presets
from endcap.repository.head_families import readable_families
from endcap.repository.options import InitOptions, PostprocessBackend, PreprocessBackend, Runtime
from endcap.repository.plan import Plan, SummaryRow, make_plan
from endcap.repository.rendering import shell_word
from endcap.repository.trial_run import TrialLimits
from endcap.repository.writing import check_target, write_repository

EXAMPLES = """
**Examples**

- `endcap init yolov8n.onnx`

- `endcap init resnet50.onnx -o models --preset torchvision --set resize_shorter=232
  --labels imagenet.txt`

- `endcap init vit.onnx -o models --preprocess-from preprocessor_config.json`

- `endcap init detector.onnx -o models --head yolov5 --size 480,640 --score-threshold 0.4`

- `endcap init detector.onnx -o models --set color=bgr --set max_candidates=1000`

- `endcap init detector.onnx -o models --runtime tensorrt --self-contained`

**Exit code**: 0 when the repository was written, 2 when it could not be: the error message says
why, and nothing is left behind.
"""

DEFAULT_OUTPUT = Path("models")
_OPTIONS = InitOptions()
_NETWORK = "Network"
_RESULTS = "Results"
_SERVING = "Serving"
_DEFAULTS = postprocess_defaults()


def init(
    model: Annotated[Path, typer.Argument(help="The network, an ONNX file.", metavar="MODEL.onnx")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to create, or an empty one.")
    ] = DEFAULT_OUTPUT,
    head: Annotated[
        str | None,
        typer.Option(
            help=f"Family of the head: {', '.join(readable_families())}; or none, which returns "
            "the network's outputs unread. Default: recognised from the network.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Preprocessing that the network was trained with: {', '.join(presets())}. "
            "Default: recognised from the network.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    preprocess_from: Annotated[
        Path | None,
        typer.Option(
            help="File that says how images are prepared: transformers' preprocessor_config.json, "
            "or timm's config.json. Default: those next to the network.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Height,width, or one number for both, of a network with a dynamic input size.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="File of class names, one per line. Default: those of the network's metadata.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    num_classes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of classes. Default: that of the head or the class names.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="What the columns of rows with finished detections are: image,box,score,class for "
            "example (YOLO-NAS), or image,box,class,score (YOLOv7). Default: recognised from the "
            "values of the trial run.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    score_threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help=f"Scores of detections must be greater. [default: {_DEFAULTS['score_threshold']}]",
            show_default=False,
            rich_help_panel=_RESULTS,
        ),
    ] = None,
    iou_threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Boxes with a greater IoU with a better box are suppressed. [default: "
            f"{_DEFAULTS['iou_threshold']}]",
            show_default=False,
            rich_help_panel=_RESULTS,
        ),
    ] = None,
    max_detections: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Most detections per image. [default: {_DEFAULTS['max_detections']}]",
            show_default=False,
            rich_help_panel=_RESULTS,
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Most classes per image of a classifier. [default: {_DEFAULTS['top_k']}]",
            show_default=False,
            rich_help_panel=_RESULTS,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Another parameter of preprocess or postprocess, such as color=bgr or "
            "class_agnostic=true; may be repeated. In Python, `help(endcap.Preprocessor)` and "
            "`help(endcap.Postprocessor)` list them.",
            show_default=False,
            rich_help_panel=_RESULTS,
        ),
    ] = None,
    runtime: Annotated[
        Runtime,
        typer.Option(
            help="Backend of the network; endcap_onnx is ONNX Runtime in endcap's backend.",
            rich_help_panel=_SERVING,
        ),
    ] = _OPTIONS.runtime,
    preprocess: Annotated[
        PreprocessBackend,
        typer.Option(
            help="Backend of the first step: compiled, a Python-backend model on the same core, or "
            "a DALI pipeline in a Python-backend model or NVIDIA's DALI backend.",
            rich_help_panel=_SERVING,
        ),
    ] = _OPTIONS.preprocess,
    postprocess: Annotated[
        PostprocessBackend, typer.Option(help="Backend of the last step.", rich_help_panel=_SERVING)
    ] = _OPTIONS.postprocess,
    max_batch: Annotated[
        int,
        typer.Option(min=1, help="Largest batch.", rich_help_panel=_SERVING),
    ] = _OPTIONS.max_batch,
    instances: Annotated[
        int,
        typer.Option(
            min=1,
            help="Instances of the network, on each GPU where there are GPUs.",
            rich_help_panel=_SERVING,
        ),
    ] = _OPTIONS.instances,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the ensemble, and prefix of its steps. Default: detect or classify.",
            show_default=False,
            rich_help_panel=_SERVING,
        ),
    ] = None,
    self_contained: Annotated[
        bool,
        typer.Option(
            "--self-contained",
            help="Copy the backends into the models' folders, for servers without endcap.",
            rich_help_panel=_SERVING,
        ),
    ] = False,
    trial_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Longest time of the trial run of the network on noise.",
            rich_help_panel=_NETWORK,
        ),
    ] = TrialLimits.timeout_s,
    trial_memory: Annotated[
        float,
        typer.Option(
            metavar="GIB",
            help="Most memory of the trial run.",
            rich_help_panel=_NETWORK,
        ),
    ] = TrialLimits.memory_gib,
    _conf: Annotated[str | None, refused_option("--conf", "--score-threshold")] = None,
    _iou: Annotated[str | None, refused_option("--iou", "--iou-threshold")] = None,
    _max_det: Annotated[str | None, refused_option("--max-det", "--max-detections")] = None,
    _imgsz: Annotated[str | None, refused_option("--imgsz", "--size")] = None,
    verbose: Verbose = False,
) -> None:
    """Write a model repository around an ONNX network: JPEG in, detections or classes out.

    Reads the network's graph and metadata, runs it on noise, and prints its decisions with their
    reasons. An ambiguous network is refused with the candidates for --head or --preset. The network
    runs in a separate process, which ends at --trial-timeout and --trial-memory.

    The folder holds the models preprocess, the network, postprocess and their ensemble, each with a
    config.pbtxt, and a README with example calls.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        options = InitOptions(
            runtime=runtime,
            preprocess=preprocess,
            postprocess=postprocess,
            head=head,
            preset=preset,
            preprocess_from=preprocess_from,
            size=_size(size),
            labels=labels,
            num_classes=num_classes,
            columns=columns,
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
            self_contained=self_contained,
            trial_limits=TrialLimits(trial_timeout, trial_memory),
        )
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


def _settings(given: list[str], **named: float | None) -> dict[str, str]:
    settings = {key: str(value) for key, value in named.items() if value is not None}
    return read_settings(given, settings)


def print_decisions(plan: Plan) -> None:
    """Print a table of what was decided about a network."""
    console = PlainConsole(highlight=False)
    table = Table.grid(padding=(0, 2))
    for row in plan.summary():
        table.add_row(*_cells(row))
    console.print(Text(printable(plan.network.path.name), style="bold"))
    console.print(table)


def _report(plan: Plan, output: Path) -> None:
    print_decisions(plan)
    console = PlainConsole(highlight=False)
    names = plan.names
    models = ", ".join(names.all)
    console.print("\n[bold green]Wrote[/]", Text(printable(f"{output}: {models}")), soft_wrap=True)
    if plan.runtime is Runtime.tensorrt:
        _print(console, f"The TensorRT engine is missing; {output / 'README.md'} has the command.")
    if plan.batch_advice:
        say(
            f"endcap: the network takes {plan.batch_text}, which is slower than batches of "
            f"{plan.options.max_batch}; {plan.batch_advice}"
        )
    folder = shell_word(f"./{output}" if str(output).startswith("-") else str(output))
    first = "endcap dali build, then " if plan.options.preprocess is PreprocessBackend.dali else ""
    if plan.runtime is Runtime.endcap_onnx:
        _print(console, f"Next: {first}endcap serve {folder}")
    else:
        needed = f"with a server that has the backend {plan.runtime.value}"
        _print(console, f"Next: {first}endcap serve {folder} --tritonserver PATH, {needed}")
    _print(console, f"Then: endcap infer PHOTO --model {names.ensemble}")


def _print(console: Console, line: str) -> None:
    """Print a line without colours and breaks."""
    console.print(Text(printable(line)), soft_wrap=True)


def _cells(row: SummaryRow) -> tuple[Text, Text, Text]:
    return (
        Text(f"  {row.name}", no_wrap=True),
        Text(printable(row.value), style="cyan", overflow="fold"),
        Text(printable(row.reason), style="dim", overflow="fold"),
    )
