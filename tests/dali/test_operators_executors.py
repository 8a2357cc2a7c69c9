"""DALI's ways to run a pipeline: ahead of its reader, and from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from nvidia.dali import Pipeline, fn

import endcap
from tests.dali.dali_runs import as_bytes, samples_of
from tests.support import jpegs, sample_heads

FILES = [jpegs.photo_jpeg(60 + 9 * i, 160 - 9 * i, seed=i) for i in range(12)]
HEAD = sample_heads.yolov8_head(1, anchors=60, num_classes=7)
BATCH = 3


def test_batches_that_are_made_ahead() -> None:
    """Several are under way at once, each with sizes of its own."""

    def sizes(place: Any) -> Any:
        return np.array([16 + place.idx_in_epoch, 32], np.int32)

    def files(place: Any) -> Any:
        return as_bytes(FILES[place.idx_in_epoch % len(FILES)])

    pipeline = Pipeline(BATCH, 2, None, prefetch_queue_depth=3, exec_async=True)
    with pipeline:
        encoded = fn.external_source(source=files, batch=False)
        size = fn.external_source(source=sizes, batch=False)
        pipeline.set_outputs(*fn.endcap.preprocess(encoded, size=size))
    pipeline.build()
    for batch in range(10):
        for i, image in enumerate(samples_of(pipeline.run()[0])):
            place = batch * BATCH + i
            wanted = endcap.preprocess(FILES[place % len(FILES)], size=(16 + place, 32))
            np.testing.assert_array_equal(image, wanted.images[0])


def reading(folder: Path, **options: Any) -> Pipeline:
    pipeline = Pipeline(BATCH, 2, None, enable_checkpointing=True, **options)
    with pipeline:
        names = [str(folder / f"{i:02}.jpg") for i in range(len(FILES))]
        encoded, _ = fn.readers.file(files=names, random_shuffle=True, seed=5, name="reader")
        images, geometry, status = fn.endcap.preprocess(encoded, size=24)
        pixels = fn.decoders.image(encoded, device="cpu")
        resized, *_ = fn.endcap.resize_normalize(pixels, size=16)
        head = fn.constant(fdata=HEAD.ravel().tolist(), shape=list(HEAD.shape))
        _, boxes, scores, *_ = fn.endcap.postprocess(
            head, geometry, status, head="yolov8", num_classes=7
        )
        kept = fn.endcap.nms(boxes, scores, iou_threshold=0.1)
        pipeline.set_outputs(images, resized, boxes, kept)
    pipeline.build()
    return pipeline


def test_a_pipeline_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    for i, file in enumerate(FILES):
        (tmp_path / f"{i:02}.jpg").write_bytes(file)
    pipeline = reading(tmp_path)
    for _ in range(2):
        pipeline.run()
    resumed = reading(tmp_path, checkpoint=pipeline.checkpoint())
    for _ in range(3):
        for one, other in zip(pipeline.run(), resumed.run(), strict=True):
            for sample, again in zip(samples_of(one), samples_of(other), strict=True):
                np.testing.assert_array_equal(sample, again)
