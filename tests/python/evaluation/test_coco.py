"""COCO's measures on cases whose results are known, and against pycocotools' own summary."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from endcap.evaluation.annotations import load_dataset, load_predictions
from endcap.evaluation.coco import Accuracy, broken_limits, difference, differences, measure
from tests.support.coco_files import Row, annotation, coco, dataset, write

CAT, DOG = 3, 7
BOX = [0.0, 0.0, 100.0, 100.0]
FAR = [300.0, 300.0, 100.0, 100.0]


def found(image_id: int, category_id: int, box: list[float], score: float = 0.9) -> Row:
    return {"image_id": image_id, "category_id": category_id, "bbox": box, "score": score}


def accuracy(folder: Path, truth: list[Row], results: list[Row], images: int = 2) -> Accuracy:
    annotated = dataset(folder, images, truth)
    path = folder / "results.json"
    path.write_text(json.dumps(results))
    return measure(annotated, load_predictions(path, annotated), [CAT, DOG])


def test_perfect_is_1_in_everything(tmp_path: Path) -> None:
    truth = [annotation(1, CAT, BOX), annotation(1, DOG, FAR), annotation(2, DOG, BOX)]
    got = accuracy(tmp_path, truth, [found(1, CAT, BOX), found(1, DOG, FAR), found(2, DOG, BOX)])
    perfect = pytest.approx(1.0, abs=1e-12)
    assert (
        got.figures["map50"],
        got.figures["map75"],
        got.figures["map50_95"],
        got.figures["map_large"],
        got.figures["recall"],
    ) == (perfect,) * 5
    assert (got.figures["map_small"], got.figures["map_medium"]) == (None, None)
    assert [(each.name, each.objects) for each in got.classes] == [("cat", 1), ("dog", 2)]
    assert [each.ap50 for each in got.classes] == [perfect, perfect]


def test_crowds_and_detections_on_them_are_ignored(tmp_path: Path) -> None:
    truth = [annotation(1, CAT, BOX), annotation(1, CAT, FAR, iscrowd=1)]
    results = [found(1, CAT, BOX, 0.5), found(1, CAT, FAR, 0.9)]
    got = accuracy(tmp_path, truth, results)
    assert got.figures["map50"] == pytest.approx(1.0)
    assert got.classes[0].objects == 1


def test_only_the_categories_named_are_measured(tmp_path: Path) -> None:
    annotated = dataset(tmp_path, 1, [annotation(1, CAT, BOX), annotation(1, DOG, BOX)])
    path = tmp_path / "results.json"
    path.write_text(json.dumps([found(1, DOG, BOX)]))
    got = measure(annotated, load_predictions(path, annotated), [DOG])
    assert [each.name for each in got.classes] == ["dog"]
    assert got.figures["map50"] == pytest.approx(1.0)


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    accuracy(tmp_path, [annotation(1, CAT, BOX)], [found(1, CAT, BOX)])
    assert capfd.readouterr() == ("", "")


def test_the_figures_are_pycocotools_own(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    truth, results = [], []
    for image in range(1, 13):
        for _ in range(8):
            box = np.concatenate([random.uniform(0, 300, 2), random.uniform(10, 160, 2)])
            category = int(random.choice([CAT, DOG]))
            truth.append(annotation(image, category, box.tolist(), id=len(truth) + 1))
            moved = box + random.normal(0, 0.05, 4) * np.tile(box[2:], 2)
            if random.random() < 0.9:
                results.append(found(image, category, moved.tolist(), float(random.random())))
    content = coco(12, truth)
    path = write(tmp_path, content)
    results_path = tmp_path / "results.json"
    results_path.write_text(json.dumps(results))
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = COCO(str(path))
        evaluated = COCOeval(theirs, theirs.loadRes(str(results_path)), "bbox")
        evaluated.evaluate()
        evaluated.accumulate()
        evaluated.summarize()
    annotated = load_dataset(tmp_path, path)
    ours = measure(annotated, load_predictions(results_path, annotated), [CAT, DOG])
    own = [*evaluated.stats[:6], evaluated.stats[8]]
    names = ("map50_95", "map50", "map75", "map_small", "map_medium", "map_large", "recall")
    assert [ours.figures[name] for name in names] == pytest.approx(own, abs=1e-12)
    assert 0.2 < evaluated.stats[1] < 0.95


# --- comparing ------------------------------------------------------------------------------------


def test_differences_and_limits(tmp_path: Path) -> None:
    truth = [annotation(1, CAT, BOX), annotation(2, CAT, BOX)]
    half = accuracy(tmp_path, truth, [found(1, CAT, BOX)])
    full = accuracy(tmp_path, truth, [found(1, CAT, BOX), found(2, CAT, BOX)])
    apart = differences(half, full)
    assert apart["map50"] == pytest.approx(-50 / 101)
    assert apart["map_small"] is None
    assert difference(None, 0.5) is None

    def problems(max_difference: float | None, min_map50: float | None) -> list[str]:
        limits = {"max_difference": max_difference, "min_map50": min_map50}
        return [
            problem.split(" is ")[0] for problem in broken_limits(half, full, **limits)
        ]  # the measure that the message is about

    assert problems(None, None) == []
    assert problems(0.499, 0.5) == []
    assert problems(0.49, None) == ["mAP50", "mAP50-95"]
    assert problems(None, 0.51) == ["mAP50"]
    other_way = broken_limits(full, half, max_difference=0.49, min_map50=None)
    assert len(other_way) == 2, "a gain is a difference as well"
    assert "+0.49504" in other_way[0] or "+0.49505" in other_way[0]
