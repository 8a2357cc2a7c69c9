"""A model repository before a server reads it, however broken its configurations are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from endcap.errors import ServerError
from endcap.triton.model_config import CONFIG_NAME, Block, read_config, read_leading_lines
from endcap.triton.parameters import EXECUTION_ENVIRONMENT, OPTIONAL

_BYTES_PER_ELEMENT = {
    "BOOL": 1, "UINT8": 1, "INT8": 1, "UINT16": 2, "INT16": 2, "FP16": 2, "BF16": 2,
    "UINT32": 4, "INT32": 4, "FP32": 4, "UINT64": 8, "INT64": 8, "FP64": 8,
}  # fmt: skip

_VERSION = re.compile("0|[1-9][0-9]*")  # Triton ignores 01
# Triton takes the backend from the platform, and without one from the model's file.
_BACKEND_OF_PLATFORM = {
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
}
FILE_OF_BACKEND = {
    "onnxruntime": "model.onnx",
    "tensorrt": "model.plan",
    "pytorch": "model.pt",
    "python": "model.py",
    "openvino": "model.xml",
}


@dataclass(frozen=True)
class ModelFolder:
    """One model: its folder and the text of its configuration ("" if none)."""

    path: Path
    text: str

    @cached_property
    def config(self) -> Block:
        """The fields of its configuration, of a broken one those before the break."""
        return read_leading_lines(self.text)

    @property
    def versions(self) -> list[int]:
        """The versions that there are folders of, the oldest first."""
        return sorted(
            int(p.name) for p in self.path.iterdir() if _VERSION.fullmatch(p.name) and p.is_dir()
        )

    @property
    def backend(self) -> str:
        """The backend that the configuration names, "" where it names none."""
        return self.config.value("backend")

    @property
    def platform(self) -> str:
        """The platform that the configuration names, "" where it names none."""
        return self.config.value("platform")

    @property
    def steps(self) -> list[str]:
        """The models that an ensemble passes tensors through; none for other models."""
        schedules = self.config.blocks("ensemble_scheduling")
        return [
            step.value("model_name") for schedule in schedules for step in schedule.blocks("step")
        ]

    @cached_property
    def needed_backend(self) -> str:
        """The backend that Triton would take, "" for an ensemble or where none is known."""
        if self.backend or self.platform:
            return self.backend or _BACKEND_OF_PLATFORM.get(self.platform, "")
        if self.steps:
            return ""
        files = {file.name for v in self.versions for file in (self.path / str(v)).iterdir()}
        of_file = [backend for backend, file in FILE_OF_BACKEND.items() if file in files]
        return of_file[0] if of_file else self.path.name.partition(".")[2]

    @property
    def runs_python(self) -> bool:
        """Whether it runs in the Python backend."""
        return self.needed_backend == "python"

    @cached_property
    def source(self) -> bytes:
        """The model.py of its newest version that has one; b"" for one in another backend."""
        for version in reversed(self.versions if self.runs_python else []):
            file = self.path / str(version) / "model.py"
            if file.is_file():  # a pipe may never end
                return file.read_bytes()
        return b""

    @property
    def runs_dali(self) -> bool:
        """Whether it is a Python model that runs a DALI pipeline of endcap's."""
        return b"endcap.python_backend.preprocess_dali_stage" in self.source

    @property
    def reads_videos(self) -> bool:
        """Whether it is a Python model that reads videos by endcap."""
        return b"endcap.video" in self.source

    @property
    def is_optional(self) -> bool:
        """Whether the configuration's parameter `optional` is true."""
        return self.config.parameter(OPTIONAL) == "true"

    @property
    def max_batch_size(self) -> int:
        """The largest batch, 0 where the model takes none."""
        return max(0, read_integer(self.config.value("max_batch_size")))

    @property
    def instances(self) -> int:
        """How many instances there are of it, 1 where the configuration does not say."""
        groups = self.config.blocks("instance_group")
        return sum(max(1, read_integer(group.value("count"))) for group in groups) or 1

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all fixed-size tensors of a full batch; text and free dimensions count as 0."""
        per_item = 0
        for tensor in (*self.config.blocks("input"), *self.config.blocks("output")):
            sizes = [read_integer(size) for size in tensor.values("dims")]
            if min(sizes, default=0) > 0:
                data_type = tensor.value("data_type").removeprefix("TYPE_")
                per_item += _BYTES_PER_ELEMENT.get(data_type, 0) * math.prod(sizes)
        return per_item * max(1, self.max_batch_size)

    @property
    def uses_server_python(self) -> bool:
        """Whether it runs in the Python that the server finds: it has no packed environment."""
        return self.runs_python and self.config.parameter(EXECUTION_ENVIRONMENT) is None

    @property
    def uses_shared_python(self) -> bool:
        """Whether it runs in the server's own Python: no packed environment or stub."""
        return self.uses_server_python and not (self.path / "triton_python_backend_stub").exists()


def model_folders(repository: Path) -> list[Path]:
    """Return the folders of a repository in the order of their names, whether models or not.

    Raises:
        ServerError: `repository` is not a folder, or holds none.
    """
    if not repository.is_dir():
        raise ServerError(
            f"model repository {repository} is not a folder; give a folder of model folders"
        )
    folders = sorted(path for path in repository.iterdir() if path.is_dir())
    if not folders:
        raise ServerError(
            f"model repository {repository} holds no model; "
            "each model is a folder with a config.pbtxt and a version folder such as 1/"
        )
    return folders


def read_repository(repository: Path, config_name: str | None = None) -> list[ModelFolder]:
    """Return the models of a repository in the order of their names.

    Args:
        repository: The folder of the models.
        config_name: Where a model has configs/NAME.pbtxt, that is its configuration.

    Raises:
        ServerError: As `model_folders`, or a folder is not a model, with which Triton does not
            start.
    """
    models = [read_model_folder(folder, config_name) for folder in model_folders(repository)]
    for model in models:
        if not (model.path / CONFIG_NAME).is_file() and not model.versions:
            raise ServerError(
                f"{model.path} is not a model (it has neither a config.pbtxt nor a version "
                "folder); Triton does not start next to it: move it elsewhere, or into a model"
            )
    return models


def check_config_name(models: Iterable[ModelFolder], name: str) -> None:
    """Raise ServerError where none of the models has configs/NAME.pbtxt.

    Triton would serve them all by their config.pbtxt and not say a word.
    """
    names = {file.stem for model in models for file in model.path.glob("configs/*.pbtxt")}
    if name in names:
        return
    known = f"give one that they have ({', '.join(sorted(names))}), or " if names else ""
    raise ServerError(
        f"none of the models to serve has a configs/{name}.pbtxt; {known}leave --config-name out"
    )


def read_model_folder(folder: Path, config_name: str | None = None) -> ModelFolder:
    """Return a model by its folder, which is not checked."""
    config = folder / "configs" / f"{config_name}.pbtxt"
    if config_name is None or not config.is_file():
        config = folder / CONFIG_NAME
    return ModelFolder(folder, read_config(config) if config.is_file() else "")


def read_integer(written: str) -> int:
    """Return a number as protobuf reads it, 0 for what is none."""
    try:
        return int(written, 0)
    except ValueError:
        return 0
