"""The options of endcap infer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from endcap._images import IMAGE_SUFFIXES
from endcap.cli.images import VIDEO_SUFFIXES
from endcap.cli.options import (
    FRAMES_PANEL,
    OUTPUT_PANEL,
    SENDING_PANEL,
    SERVER_PANEL,
    Concurrency,
    option,
    refused_option,
)
from endcap.cli.report import Form, chosen_form
from endcap.client import ClientArguments
from endcap.errors import InvalidArgumentError

_CLIENT = ClientArguments()
_COMPARISON_PANEL = "Comparison"


@dataclass(frozen=True)
class InferOptions:
    """What is done with the images and videos of endcap infer, and with their results."""

    model: Annotated[
        str | None,
        option(
            SERVER_PANEL,
            f"Name of the ensemble. Default: {_CLIENT.model}, else the server's only model that "
            "takes images and gives detections, classes or tensors.",
        ),
    ] = None
    concurrency: Concurrency = _CLIENT.concurrency
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Send over one gRPC stream, which a decoupled model needs.",
            rich_help_panel=SENDING_PANEL,
        ),
    ] = False
    classify: Annotated[
        int | None,
        option(
            SENDING_PANEL,
            "Request the K best classes of a classifier, by Triton's classification extension.",
            min=1,
            metavar="K",
        ),
    ] = None
    track: Annotated[
        bool,
        typer.Option(
            "--track",
            help="Give objects ids that stay from frame to frame of a video, or from image to "
            "image in the order of their names.",
            rich_help_panel=FRAMES_PANEL,
        ),
    ] = False
    sequence: Annotated[
        str | None,
        option(
            FRAMES_PANEL,
            "Send the frames of a video, or the images in the order of their names, as a sequence "
            "of this id, whose objects the server tracks. The model is then detect_track, without "
            "another --model.",
            metavar="ID",
        ),
    ] = None
    rate: Annotated[
        float | None,
        option(
            FRAMES_PANEL,
            "Frames of a video a second, by their times; of images, for --track. Default: all of a "
            "video, 30 of images.",
        ),
    ] = None
    every: Annotated[
        int,
        typer.Option(min=1, help="Take every n-th frame of a video.", rich_help_panel=FRAMES_PANEL),
    ] = 1
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON, not a table.", rich_help_panel=OUTPUT_PANEL)
    ] = False
    csv_output: Annotated[
        bool,
        typer.Option(
            "--csv", help="Print CSV, a row for each detection.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = False
    coco_output: Annotated[
        bool,
        typer.Option(
            "--coco", help="Print a data set in COCO's JSON format.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = False
    output: Annotated[
        Path | None,
        option(OUTPUT_PANEL, "File for the report. Default: standard output.", "--output", "-o"),
    ] = None
    draw: Annotated[
        Path | None,
        option(
            OUTPUT_PANEL,
            "Folder for pictures or videos with the results drawn on them, also of one image; an "
            "MP4 file for one video.",
        ),
    ] = None
    score_threshold: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Leave results with lower scores out of report and pictures. The server has a "
            "separate threshold.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = 0.0
    conf: Annotated[str | None, refused_option("--conf", "--score-threshold")] = None
    labels: Annotated[
        Path | None,
        option(OUTPUT_PANEL, "File of class names, one per line. Default: the server's."),
    ] = None
    compare: Annotated[
        Path | None,
        option(
            _COMPARISON_PANEL,
            "Model repository that is served: runs its network on the same images without a "
            "server, with OpenCV and NumPy, and compares the results.",
            metavar="REPOSITORY",
        ),
    ] = None
    network: Annotated[
        Path | None,
        option(
            _COMPARISON_PANEL,
            "ONNX file for --compare. Default: the repository's model.onnx.",
            metavar="FILE.onnx",
        ),
    ] = None

    @property
    def form(self) -> Form:
        """The report's format. Raises BadParameter for two."""
        return chosen_form(json=self.json_output, csv=self.csv_output, coco=self.coco_output)

    @property
    def is_tracked(self) -> bool:
        """Whether detections have ids."""
        return self.track or self.sequence is not None

    def check(self, batch: int, video: str | None) -> None:
        """Raise InvalidArgumentError for options that exclude each other.

        Args:
            batch: Images in a request.
            video: The name of the first video; None for images.
        """
        if self.stream and batch > 1:
            raise InvalidArgumentError(
                f"--stream sends images one by one, so --batch {batch} is impossible; leave one of "
                "the two out"
            )
        if self.track and self.sequence is not None:
            raise InvalidArgumentError(
                "--track gives ids here and --sequence has the server give them; give one of them"
            )
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise InvalidArgumentError(f"--rate is {self.rate:g}: give frames a second, above 0")
        if self.rate is not None and self.every != 1:
            raise InvalidArgumentError("--rate and --every both choose frames; give one of them")
        suffix = self.draw.suffix.lower() if self.draw and not self.draw.is_dir() else ""
        if video is not None:
            of_images = {
                "--coco": self.form is Form.coco,
                "--compare": self.compare is not None,
                "--batch": batch > 1,
            }
            for name in (name for name, is_given in of_images.items() if is_given):
                raise InvalidArgumentError(
                    f"{video} is a video, and {name} is of images; leave it out"
                )
        elif self.every != 1 or (self.rate is not None and not self.track):
            name = "--every" if self.every != 1 else "--rate"
            raise InvalidArgumentError(f"{name} is of videos, and there are images; leave it out")
        elif suffix in (*VIDEO_SUFFIXES, *IMAGE_SUFFIXES):
            kind = "video" if suffix in VIDEO_SUFFIXES else "picture"
            raise InvalidArgumentError(
                f"--draw {self.draw} is the name of a {kind}; give a folder for the pictures, also "
                "for one image"
            )
