"""The options of endcap infer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from endcap._images import IMAGE_SUFFIXES
from endcap.cli.images import VIDEO_SUFFIXES
from endcap.cli.options import (
    CONCURRENCY,
    in_frames,
    in_output,
    in_server,
    panel,
)
from endcap.cli.report import Format
from endcap.client import ClientArguments
from endcap.errors import InvalidArgumentError

_CLIENT = ClientArguments()
_in_comparison = panel("Comparison")


@dataclass(frozen=True)
class InferOptions:
    """What is done with the images and videos of endcap infer, and with their results."""

    model: str | None = None
    concurrency: int = _CLIENT.concurrency
    track: bool = False
    rate: float | None = None
    every: int = 1
    json: bool = False
    csv: bool = False
    coco: bool = False
    output: Path | None = None
    draw: Path | None = None
    score_threshold: float = 0.0
    labels: Path | None = None
    compare: Path | None = None
    network: Path | None = None

    @property
    def format(self) -> Format:
        """The report's format. Raises BadParameter for two."""
        chosen = [each for each in Format if each is not Format.table and getattr(self, each.value)]
        if len(chosen) > 1:
            names = " and ".join(f"--{format.value}" for format in chosen)
            raise typer.BadParameter(f"{names}: give one only")
        return chosen[0] if chosen else Format.table

    def check(self, batch: int, video: str | None) -> None:
        """Raise InvalidArgumentError for options that exclude each other, BadParameter for two.

        Args:
            batch: Images in a request.
            video: The name of the first video; None for images.
        """
        if self.network is not None and self.compare is None:
            raise typer.BadParameter(
                "--network needs --compare REPOSITORY: give both, or leave --network out"
            )
        format = self.format
        if self.compare is not None and format not in (Format.table, Format.json):
            raise typer.BadParameter(
                f"--compare prints a table or --json, not --{format.value}: leave one out"
            )
        if self.track and self.coco and video is None:
            raise typer.BadParameter("--coco has no track ids: give --json or --csv with --track")
        if self.rate is not None and not self.rate > 0:
            raise InvalidArgumentError(f"--rate is {self.rate:g}: give frames per second, above 0")
        kind = "videos" if video is None else "images"
        misplaced = (
            {"--every": self.every != 1, "--rate": self.rate is not None and not self.track}
            if video is None
            else {"--coco": self.coco, "--compare": self.compare is not None, "--batch": batch > 1}
        )
        for name in (name for name, is_given in misplaced.items() if is_given):
            raise InvalidArgumentError(f"{name} is for {kind} only; leave it out")
        suffix = self.draw.suffix.lower() if self.draw and not self.draw.is_dir() else ""
        if video is None and suffix in (*VIDEO_SUFFIXES, *IMAGE_SUFFIXES):
            raise InvalidArgumentError(
                f"--draw {self.draw} is the name of a file; give a folder for the pictures, also "
                "for one image"
            )


INFER = {
    "model": in_server(
        f"Name of the ensemble. Default: {_CLIENT.model}, else the server's only model that takes "
        "images and gives detections, classes or tensors."
    ),
    "concurrency": CONCURRENCY,
    "track": in_frames(
        "Give objects ids that stay from frame to frame of a video, or from image to image in the "
        "order of their names.",
        "--track",
    ),
    "rate": in_frames(
        "Frames per second to take from a video, by their times; with --track, the frame rate of "
        "the images. Default: all frames of a video, 30 for images."
    ),
    "every": in_frames("Take every n-th frame of a video.", min=1),
    "json": in_output("Print JSON, not a table.", "--json"),
    "csv": in_output("Print CSV, a row for each detection.", "--csv"),
    "coco": in_output("Print a data set in COCO's JSON format.", "--coco"),
    "output": in_output("File for the report. Default: standard output.", "--output", "-o"),
    "draw": in_output(
        "Folder for pictures or videos with the results drawn on them, also of one image; an MP4 "
        "file for one video."
    ),
    "score_threshold": in_output(
        "Leave results with lower scores out of report and pictures. The server has a separate "
        "threshold.",
        min=0,
        max=1,
    ),
    "labels": in_output("File of class names, one per line. Default: the server's."),
    "compare": _in_comparison(
        "Model repository that is served: runs its network on the same images without a server, "
        "with OpenCV and NumPy, and compares the results.",
        metavar="REPOSITORY",
    ),
    "network": _in_comparison(
        "ONNX file for --compare. Default: the repository's model.onnx.", metavar="FILE.onnx"
    ),
}
