"""endcap parity: whether a network sees the pixels that it was trained with."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

from endcap._files import whole_text_file
from endcap.cli.console import (
    INTERRUPTED,
    PlainConsole,
    printable_lines,
    progress_bar,
    report_errors,
    say,
    stop_deferred,
    stopped_by_signals,
)
from endcap.cli.files import model_files, refuse_to_overwrite
from endcap.cli.images import expand_images
from endcap.cli.options import OUTPUT_PANEL, Verbose, read_settings
from endcap.errors import InvalidArgumentError
from endcap.evaluation.annotations import Dataset, load_dataset
from endcap.preprocess import presets
from endcap.tools.config_changes import diff, write
from endcap.tools.parity.page import as_page
from endcap.tools.parity.pipelines import files_of, names
from endcap.tools.parity.report import as_text
from endcap.tools.parity.run import (
    ParityPlan,
    ParityReport,
    Served,
    config_changes,
    find_ensemble,
    read_served,
    run,
)

EXAMPLES = """
**Examples**

- `endcap parity photos/ --training ultralytics --repository models`

- `endcap parity photos/ --training torchvision:resnet50 --preset torchvision --html parity.html`

- `endcap parity photos/ --training preprocessor_config.json --repository models --write`

- `endcap parity val2017 --training my_training:load_image --repository models
  --annotations instances_val2017.json --training-postprocess ultralytics`

**Exit code**: 0 when nothing differs, 1 when something does or an image failed, 2 when nothing
could be compared.
"""

_DIFFERENT = 1
_ENDCAP = "Endcap's side"
_TRAINING = "Training"
_DEFAULT_LIMIT = 64


def parity(
    images: Annotated[
        list[str],
        typer.Argument(
            help="Image files, folders or glob patterns, such as were used for training.",
            metavar="IMAGES",
        ),
    ],
    training: Annotated[
        str,
        typer.Option(
            help=f"Training pipeline: {', '.join(names())}, with :MODEL or :FILE where it has one; "
            "a preprocessor_config.json of transformers, a config.json of timm, a saved pipeline "
            "of albumentations; or MODULE:FUNCTION, which takes a path and returns the tensor.",
            metavar="PIPELINE",
            rich_help_panel=_TRAINING,
        ),
    ],
    training_postprocess: Annotated[
        str | None,
        typer.Option(
            help="Postprocessing of the training: ultralytics, or MODULE:FUNCTION, which takes the "
            "network's outputs by name and returns boxes, scores and class ids.",
            metavar="PIPELINE",
            show_default=False,
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option(
            help="Annotations in COCO's format, of images in the one folder IMAGES: measures the "
            "change of mAP.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    repository: Annotated[
        Path | None,
        typer.Option(
            help="Model repository whose parameters and network are compared.",
            show_default=False,
            rich_help_panel=_ENDCAP,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Name of its ensemble. Default: detect, else the only one.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=_ENDCAP,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Preset to compare instead of a repository: {', '.join(presets())}.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=_ENDCAP,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Parameter of preprocess beside --preset, such as size=320; may be repeated.",
            show_default=False,
            rich_help_panel=_ENDCAP,
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            help="ONNX file of the network, whose outputs are compared, too. Default: that of the "
            "repository.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=_ENDCAP,
        ),
    ] = None,
    write_configs: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Set what was found in the repository's config.pbtxt files, after showing the "
            "difference.",
            rich_help_panel=_ENDCAP,
        ),
    ] = False,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Take images in subfolders, too.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="Take the first N images.", metavar="N")
    ] = _DEFAULT_LIMIT,
    page: Annotated[
        Path | None,
        typer.Option(
            "--html",
            help="File for a page with the tensors and their differences as pictures.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON, not a table.", rich_help_panel=OUTPUT_PANEL)
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Find out whether a network gets the pixels that it was trained with, and why not.

    Makes the tensor of each image twice, by endcap's preprocess and by the training pipeline, and
    compares them in 8-bit steps of the pixels. Where they differ, variants of decoding, EXIF,
    colours, resize, placement and normalisation are tried until the training's tensors come out;
    each difference is named with its effect and the parameter to set.

    With a network its outputs are compared as well, and with --training-postprocess the rules of
    suppression. No server is started.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        served = _read_served(repository, model, preset, settings)
        if write_configs and served is None:
            raise InvalidArgumentError("--write changes a repository; give --repository")
        paths, dataset = _images(images, annotations, limit, recursive=recursive)
        if page is not None and not page.parent.is_dir():
            raise InvalidArgumentError(f"--html {page}: there is no folder {page.parent}; make it")
        read = [*paths, *filter(None, (annotations, network))]
        read += model_files(repository) if repository is not None else []
        for text in filter(None, (training, training_postprocess)):
            read += files_of(text)
        refuse_to_overwrite(read, [page] if page else [], advice="give --html another file")
        plan = ParityPlan(
            images=paths,
            training=training,
            parameters=_parameters(preset, settings),
            served=served,
            network=network,
            postprocess=training_postprocess,
            dataset=dataset,
        )
        report = run(plan, progress=progress_bar)
        if page is not None:
            with whole_text_file(page) as file:
                file.write(as_page(report))
        if json_output:
            print(json.dumps(report.to_json(), indent=1, allow_nan=False))
        else:
            PlainConsole(highlight=False).print(as_text(report))
        if write_configs and served is not None:
            _write(served, report, sys.stderr if json_output else sys.stdout)
    if not report.ok:
        raise typer.Exit(_DIFFERENT)


def _read_served(
    repository: Path | None, model: str | None, preset: str | None, settings: list[str] | None
) -> Served | None:
    if repository is None:
        if preset is None:
            raise InvalidArgumentError(
                "nothing of endcap's is given; give --repository DIR, or --preset NAME"
            )
        return None
    if preset is not None or settings:
        raise InvalidArgumentError(
            "--repository has the parameters; leave --preset and --set out, or give them without it"
        )
    return read_served(repository, model or find_ensemble(repository))


def _parameters(preset: str | None, settings: list[str] | None) -> dict[str, str]:
    return {**({} if preset is None else {"preset": preset}), **read_settings(settings or [])}


def _images(
    arguments: list[str], annotations: Path | None, limit: int, *, recursive: bool
) -> tuple[list[Path], Dataset | None]:
    if annotations is None:
        return expand_images(arguments, recursive=recursive)[:limit], None
    folder = Path(arguments[0])
    if len(arguments) > 1 or not folder.is_dir():
        raise InvalidArgumentError(
            "--annotations goes with one folder of images; give the folder that every file_name "
            "starts from"
        )
    dataset = load_dataset(folder, annotations, limit=limit)
    return [image.path for image in dataset.images], dataset


def _write(served: Served, report: ParityReport, stream: TextIO) -> None:
    changes, left = config_changes(served, report)
    if changes:
        print(printable_lines(diff(changes)), file=stream)
    with stop_deferred():  # all files or none
        written = write(changes)
    for name in written:
        say(f"endcap: wrote {name}")
    if not changes:
        say("endcap: no parameter is to be set that would help; nothing was written")
    if left:
        say(
            f"endcap: not written: {', '.join(left)}; the network's input decides that, so export "
            "the network anew, or run `endcap init` on another one"
        )
