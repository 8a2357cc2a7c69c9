"""endcap evaluate: the accuracy of a served model on annotated images."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from endcap._files import whole_text_file
from endcap.cli.console import (
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    PlainConsole,
    count,
    installing,
    message_of,
    progress_bar,
    report_errors,
    say,
    stopped_by_signals,
)
from endcap.cli.files import model_files, refuse_to_overwrite
from endcap.cli.options import (
    DEFAULT_URL,
    SERVER_PANEL,
    Concurrency,
    Model,
    Protocol,
    Timeout,
    Verbose,
)
from endcap.client import ClientArguments
from endcap.evaluation.annotations import Predictions
from endcap.evaluation.categories import CategoriesBy
from endcap.evaluation.report import as_table
from endcap.evaluation.run import LOWEST_THRESHOLD, EvaluationPlan, run

EXAMPLES = """
**Examples**

- `endcap evaluate val2017 instances_val2017.json --repository model_repository`

- `endcap evaluate images annotations.json --repository model_repository
  --reference model.onnx --max-difference 0.002`

- `endcap evaluate images annotations.json --url 127.0.0.1:8001 --predictions own.json`

**Exit code**: 0 without errors, 1 when an image failed, a limit was exceeded or the detections
could not be saved, 2 when nothing could be measured.
"""

_CLIENT = ClientArguments()
_REFERENCE = "Comparison"


def evaluate(
    images: Annotated[
        Path, typer.Argument(help="Folder that every file_name is relative to.", metavar="IMAGES")
    ],
    annotations: Annotated[
        Path, typer.Argument(help="Annotations in COCO's detection format.", metavar="ANNOTATIONS")
    ],
    url: Annotated[
        str | None,
        typer.Option(
            help=f"HOST:PORT of a running server, measured unmodified. Default: {DEFAULT_URL}.",
            show_default=False,
            rich_help_panel=SERVER_PANEL,
        ),
    ] = None,
    repository: Annotated[
        Path | None,
        typer.Option(
            help="Start a server on a copy of this model repository, with --score-threshold in its "
            "endcap_postprocess models; with --url only read what the reference needs.",
            show_default=False,
            rich_help_panel=SERVER_PANEL,
        ),
    ] = None,
    protocol: Protocol = None,
    model: Model = _CLIENT.model,
    timeout: Timeout = _CLIENT.timeout_s,
    concurrency: Concurrency = _CLIENT.concurrency,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="ONNX file of the same network: runs it without a server, with OpenCV, NumPy and "
            "the parameters of --repository, and compares.",
            show_default=False,
            rich_help_panel=_REFERENCE,
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="COCO results of another pipeline to compare with.",
            show_default=False,
            rich_help_panel=_REFERENCE,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Preprocessing of the reference, as the network was trained. Default: that of the "
            "repository.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=_REFERENCE,
        ),
    ] = None,
    score_threshold: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Score threshold of the reference, and with --repository of the server.",
            rich_help_panel=_REFERENCE,
        ),
    ] = LOWEST_THRESHOLD,
    categories_by: Annotated[
        CategoriesBy | None,
        typer.Option(
            help="How class ids and categories match: by label and name, or by the order of "
            "category ids. Default: name where the server has labels, else order.",
            show_default=False,
        ),
    ] = None,
    allow_unmatched: Annotated[
        bool,
        typer.Option(
            "--allow-unmatched", help="Leave out classes without a category, and the reverse."
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Take the first N images.", metavar="N", show_default=False),
    ] = None,
    max_difference: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Exit with 1 when mAP50 or mAP50-95 of the two differ by more than this.",
            show_default=False,
        ),
    ] = None,
    min_map50: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Exit with 1 when mAP50 is below this.", show_default=False
        ),
    ] = None,
    save_predictions: Annotated[
        Path | None,
        typer.Option(help="File for the server's detections, as COCO results.", show_default=False),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
    verbose: Verbose = False,
) -> None:
    """Measure the accuracy of a served model, and compare it with a reference.

    Sends annotated images to the ensemble and prints COCO's average precision, by pycocotools.
    With --reference the same images are processed by OpenCV, ONNX Runtime and NumPy as well; the
    difference of the two is the effect of decoding, resizing and suppression in the server.
    """
    plan = EvaluationPlan(
        images=images,
        annotations=annotations,
        limit=limit,
        url=url,
        repository=repository,
        protocol=protocol.value if protocol else None,
        model=model,
        timeout_s=timeout,
        concurrency=concurrency,
        reference=reference,
        predictions=predictions,
        score_threshold=score_threshold,
        preset=preset,
        categories_by=categories_by,
        allow_unmatched=allow_unmatched,
        max_difference=max_difference,
        min_map50=min_map50,
    )
    unsaved: list[str] = []
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        targets = [save_predictions] if save_predictions is not None else []

        def keep(read: Iterable[Path]) -> None:
            refuse_to_overwrite(read, targets, advice="give --save-predictions another file")

        keep(filter(None, (annotations, predictions, reference)))
        keep(model_files(repository) if repository is not None else ())
        with _saving(save_predictions, unsaved) as save:
            evaluation = run(
                plan,
                progress=progress_bar,
                on_dataset=lambda dataset: keep(image.path for image in dataset.images),
                on_served=save,
                installing=installing,
            )
    evaluation = dataclasses.replace(evaluation, problems=(*evaluation.problems, *unsaved))
    if json_output:
        print(json.dumps(evaluation.to_json(), indent=1, allow_nan=False))
    else:
        PlainConsole(highlight=False).print(as_table(evaluation))
    if evaluation.failures:
        failed = len({each.image for each in evaluation.failures})
        say(f"endcap: {failed} of {count(evaluation.images, 'image')} failed")
    for problem in evaluation.problems:
        say(f"endcap: {problem}")
    if not evaluation.ok:
        raise typer.Exit(SOME_IMAGE_FAILED)


@contextlib.contextmanager
def _saving(path: Path | None, problems: list[str]) -> Iterator[Callable[[Predictions], None]]:
    """Open the file at once, and yield a function that writes and closes it.

    An error of that function is added to `problems`; the evaluation goes on. Without a path nothing
    is written.
    """
    if path is None:
        yield lambda _: None
        return
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(whole_text_file(path))

        def save(served: Predictions) -> None:
            try:
                with opened.pop_all():
                    served.write(file)
            except OSError as error:
                problems.append(f"--save-predictions holds nothing: {message_of(error)}")

        yield save
