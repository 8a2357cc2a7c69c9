"""endcap evaluate: the accuracy of a served model on annotated images."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from endcap._files import whole_text_file
from endcap.cli.console import (
    SOME_IMAGE_FAILED,
    PlainConsole,
    count,
    installing,
    progress_bar,
    say,
)
from endcap.cli.files import refuse_to_overwrite
from endcap.cli.options import (
    CONCURRENCY,
    DEFAULT_URL,
    MODEL,
    PROTOCOL,
    TIMEOUT,
    AsJson,
    command,
    in_server,
    panel,
)
from endcap.evaluation.annotations import Predictions
from endcap.evaluation.report import as_table
from endcap.evaluation.run import EvaluationPlan, run

EXAMPLES = """
**Examples**

- `endcap evaluate val2017 instances_val2017.json --repository model_repository`

- `endcap evaluate images annotations.json --repository model_repository
  --reference model.onnx --max-difference 0.002`

- `endcap evaluate images annotations.json --url 127.0.0.1:8001 --predictions own.json`

**Exit code**: 0 without errors, 1 when an image failed, a limit was exceeded or the detections
could not be saved, 2 when nothing could be measured.
"""

_in_reference = panel("Comparison")
_PLAN = {
    "images": typer.Argument(help="Folder that every file_name is relative to.", metavar="IMAGES"),
    "annotations": typer.Argument(
        help="Annotations in COCO's detection format.", metavar="ANNOTATIONS"
    ),
    "url": in_server(
        f"HOST:PORT of a running server, measured unmodified. Default without --repository: "
        f"{DEFAULT_URL}."
    ),
    "repository": in_server(
        "Start a server on a copy of this model repository, with --score-threshold in its "
        "endcap_postprocess models; with --url only read what the reference needs."
    ),
    "protocol": PROTOCOL,
    "model": MODEL,
    "timeout_s": TIMEOUT,
    "concurrency": CONCURRENCY,
    "reference": _in_reference(
        "ONNX file of the same network: runs it without a server, with OpenCV, NumPy and the "
        "parameters of --repository, and compares."
    ),
    "predictions": _in_reference("COCO results of another pipeline to compare with."),
    "score_threshold": _in_reference(
        "Score threshold of the reference, and with --repository of the server.", min=0, max=1
    ),
    "limit": typer.Option(min=1, help="Take the first N images.", metavar="N"),
    "max_difference": typer.Option(
        min=0, help="Exit with 1 when mAP50 or mAP50-95 of the two differ by more than this."
    ),
    "min_map50": typer.Option(min=0, max=1, help="Exit with 1 when mAP50 is below this."),
}


@command(plan=_PLAN)
def evaluate(
    plan: EvaluationPlan,
    save_predictions: Annotated[
        Path | None, typer.Option(help="File for the server's detections, as COCO results.")
    ] = None,
    json_output: AsJson = False,
) -> None:
    """Measure the accuracy of a served model, and compare it with a reference.

    Sends annotated images to the ensemble and prints COCO's average precision, by pycocotools.
    With --reference the same images are processed by OpenCV, ONNX Runtime and NumPy as well; the
    difference of the two is the effect of decoding, resizing and suppression in the server.
    """
    targets = [save_predictions] if save_predictions is not None else []

    def keep(read: Iterable[Path]) -> None:
        refuse_to_overwrite(read, targets, advice="give --save-predictions another file")

    keep(filter(None, (plan.annotations, plan.predictions, plan.reference)))
    with contextlib.ExitStack() as opened:  # at once, to fail before minutes of work
        file = opened.enter_context(whole_text_file(targets[0])) if targets else None

        def save(served: Predictions) -> None:
            if file is not None:
                with opened.pop_all():
                    json.dump(served.rows, file, allow_nan=False)

        evaluation = run(
            plan,
            progress=progress_bar,
            on_dataset=lambda dataset: keep(dataset.images.values()),
            on_served=save,
            installing=installing,
        )
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
