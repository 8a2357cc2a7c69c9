"""Prints which share of detections is right, and of objects is found, from several scores on.

    endcap evaluate /tmp/shapes /tmp/shapes/annotations.json --repository model_repository \
        --save-predictions /tmp/predictions.json
    python -m training.score_thresholds /tmp/shapes/annotations.json /tmp/predictions.json

Average precision says nothing about them, and a server has to have one threshold. A detection is
right where it is the best one of an object of its class at an IoU of 0.5 or more.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

MATCH_IOU = 0.5
SCORES = (0.25, 0.4, 0.5, 0.6)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Precision and recall of detections at an IoU of 0.5, by score threshold."
    )
    parser.add_argument("annotations", type=Path, help="the data set's COCO annotations")
    parser.add_argument("predictions", type=Path, help="what was found, as COCO results")
    options = parser.parse_args()
    scores, right, objects = match(options.annotations, options.predictions)
    if not objects:
        parser.error(f"{options.annotations} holds no object; at least one is needed.")
    print(f"{'score from':<12}{'detections':>10}{'precision':>11}{'recall':>8}")
    for threshold in SCORES:
        found = right[scores >= threshold]
        precision = f"{found.mean():.3f}" if len(found) else "-"
        print(f"{threshold:<12.2f}{len(found):>10}{precision:>11}{found.sum() / objects:>8.3f}")
    print(f"{objects} objects")


def match(
    annotations: Path, predictions: Path
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], int]:
    """Match detections with objects as COCO does.

    Returns:
        The score of each detection, whether it is right, and the number of objects.
    """
    # pycocotools prints progress that no reader needs.
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(annotations))
        evaluation = COCOeval(truth, truth.loadRes(str(predictions)), "bbox")
        evaluation.params.iouThrs = np.array([MATCH_IOU])
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluation.evaluate()
    # A row is None where an image has neither an object nor a detection of a class.
    rows = [row for row in evaluation.evalImgs if row is not None]
    scores = np.array([score for row in rows for score in row["dtScores"]], np.float64)
    right = np.array([matched > 0 for row in rows for matched in row["dtMatches"][0]], np.bool_)
    return scores, right, sum(len(row["gtIds"]) for row in rows)


if __name__ == "__main__":
    main()
