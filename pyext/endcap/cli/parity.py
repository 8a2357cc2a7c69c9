"""endcap parity: whether a network sees the pixels that it was trained with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from endcap.cli.console import PlainConsole, progress_bar
from endcap.cli.images import expand_images
from endcap.cli.options import AsJson, command, panel, read_settings
from endcap.errors import InvalidArgumentError
from endcap.evaluation.parity.comparison import compare_tensors, make_preprocessor
from endcap.evaluation.parity.pipelines import NAMED_PIPELINES, load_pipeline
from endcap.evaluation.parity.report import as_text
from endcap.preprocess import presets
from endcap.triton.ensemble import find_network, read_ensemble
from endcap.triton.model_folder import read_repository

EXAMPLES = """
**Examples**

- `endcap parity photos/ --training ultralytics --repository models`

- `endcap parity photos/ --training torchvision:resnet50 --preset torchvision`

- `endcap parity photos/ --training my_training:load_image --repository models`

**Exit code**: 0 when nothing differs, 1 when something does or an image failed, 2 when nothing
could be compared.
"""

_DIFFERENT = 1
_USUAL_ENSEMBLE = "detect"
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
            f"Training pipeline: {', '.join(NAMED_PIPELINES)}, with :MODEL where it has one; or "
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
    network = None
    if repository is None:
        if preset is None:
            raise InvalidArgumentError("nothing to compare; give --repository DIR or --preset NAME")
        parameters: dict[str, Any] = {"preset": preset, **read_settings(settings or [])}
    elif preset is not None or settings:
        raise InvalidArgumentError(
            "--repository has the parameters; leave --preset and --set out, or give them without it"
        )
    else:
        served = find_network(read_ensemble(repository, model or _find_ensemble(repository)))
        parameters, network = served.preprocess, served.find_file()
    paths = expand_images(images, recursive=recursive)[:limit]
    size = make_preprocessor(parameters).parameters["size"].split(",")
    report = compare_tensors(
        paths,
        load_pipeline(training, (int(size[0]), int(size[1]))),
        parameters,
        progress=progress_bar,
        network=network,
    )
    if json_output:
        print(json.dumps(report.to_json(), indent=1, allow_nan=False))
    else:
        PlainConsole(highlight=False).print(as_text(report))
    if not report.ok:
        raise typer.Exit(_DIFFERENT)


def _find_ensemble(repository: Path) -> str:
    """Return the usual ensemble of a repository, or else its only one."""
    if (repository / _USUAL_ENSEMBLE).is_dir() or not repository.is_dir():
        return _USUAL_ENSEMBLE
    ensembles = sorted(model.path.name for model in read_repository(repository) if model.steps)
    if len(ensembles) != 1:
        has = f"the ensembles {', '.join(ensembles)}" if ensembles else "no ensemble"
        raise InvalidArgumentError(f"{repository} has {has}; name one with --model")
    return ensembles[0]
