"""endcap parity: whether a network sees the pixels that it was trained with."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

from endcap.cli.console import PlainConsole, printable_lines, progress_bar, say
from endcap.cli.images import expand_images
from endcap.cli.options import AsJson, command, panel, read_settings
from endcap.errors import InvalidArgumentError
from endcap.evaluation.parity.comparison import compare_tensors, make_preprocessor
from endcap.evaluation.parity.pipelines import load_pipeline, names
from endcap.evaluation.parity.report import as_text
from endcap.evaluation.parity.served import OF_NETWORK, Served, read_served
from endcap.preprocess import presets

EXAMPLES = """
**Examples**

- `endcap parity photos/ --training ultralytics --repository models`

- `endcap parity photos/ --training torchvision:resnet50 --preset torchvision`

- `endcap parity photos/ --training preprocessor_config.json --repository models --write`

- `endcap parity photos/ --training my_training:load_image --repository models`

**Exit code**: 0 when nothing differs, 1 when something does or an image failed, 2 when nothing
could be compared.
"""

_DIFFERENT = 1
_DEFAULT_LIMIT = 64
_in_endcap = panel("Endcap's side")
_in_training = panel("Training")


@command()
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
        _in_training(
            f"Training pipeline: {', '.join(names())}, with :MODEL where it has one; a "
            "preprocessor_config.json of transformers or a config.json of timm; or "
            "MODULE:FUNCTION, which takes a path and returns the tensor.",
            metavar="PIPELINE",
        ),
    ],
    repository: Annotated[
        Path | None, _in_endcap("Model repository whose parameters are compared.")
    ] = None,
    model: Annotated[
        str | None,
        _in_endcap("Name of its ensemble. Default: detect, else the only one.", metavar="NAME"),
    ] = None,
    preset: Annotated[
        str | None,
        _in_endcap(
            f"Preset to compare instead of a repository: {', '.join(presets())}.", metavar="NAME"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        _in_endcap(
            "Parameter of preprocess with --preset, such as size=320; may be repeated.",
            "--set",
            metavar="NAME=VALUE",
        ),
    ] = None,
    write: Annotated[
        bool,
        _in_endcap(
            "Set what was found in the config.pbtxt of the repository's preprocess model, and "
            "print the difference.",
            "--write",
        ),
    ] = False,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Take images in subfolders, too.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="Take the first N images.", metavar="N")
    ] = _DEFAULT_LIMIT,
    json_output: AsJson = False,
) -> None:
    """Find out whether a network gets the pixels that it was trained with, and why not.

    Makes the tensor of each image twice, by endcap's preprocess and by the training pipeline, and
    compares them in 8-bit steps of the pixels. Where they differ, the parameters of preprocess are
    tried until the training's tensors come out; each difference is named with its effect and the
    parameter to set. No server is started.
    """
    served = _read_served(repository, model, preset, settings)
    if write and served is None:
        raise InvalidArgumentError("--write changes a repository; give --repository")
    paths = expand_images(images, recursive=recursive)[:limit]
    if served is not None:
        parameters = dict(served.parameters)
    else:
        parameters = {"preset": preset or "", **read_settings(settings or [])}
    size = make_preprocessor(parameters).parameters["size"].split(",")
    inside, note = served.read_normalization() if served else (None, "")
    report = compare_tensors(
        paths,
        load_pipeline(training, (int(size[0]), int(size[1]))),
        parameters,
        progress=progress_bar,
        has_network=served is not None and served.network is not None,
        inside=inside,
    )
    if note:
        say(f"endcap: {note}")
    if json_output:
        print(json.dumps(report.to_json(), indent=1, allow_nan=False))
    else:
        PlainConsole(highlight=False).print(as_text(report))
    if write and served is not None:
        _write(served, report.settings, sys.stderr if json_output else sys.stdout)
    if not report.ok:
        raise typer.Exit(_DIFFERENT)


def _read_served(
    repository: Path | None, model: str | None, preset: str | None, settings: list[str] | None
) -> Served | None:
    if repository is None:
        if preset is None:
            raise InvalidArgumentError("nothing to compare; give --repository DIR or --preset NAME")
        return None
    if preset is not None or settings:
        raise InvalidArgumentError(
            "--repository has the parameters; leave --preset and --set out, or give them without it"
        )
    return read_served(repository, model)


def _write(served: Served, settings: dict[str, str], stream: TextIO) -> None:
    changes = served.write(settings)
    if changes:
        print(printable_lines(changes), file=stream)
        say(f"endcap: wrote {served.config}")
    else:
        say("endcap: no parameter to set; nothing was written")
    left = [f"{name}={value}" for name, value in settings.items() if name in OF_NETWORK]
    if left:
        say(
            f"endcap: not written: {', '.join(left)}; the network's input decides that, so export "
            "the network again, or run `endcap init` on another one"
        )
