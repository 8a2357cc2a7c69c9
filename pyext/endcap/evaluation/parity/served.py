"""The ensemble of a repository whose parameters `endcap parity` compares and sets."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from endcap.errors import InvalidArgumentError
from endcap.repository.errors import RepositoryError
from endcap.repository.input_normalization import Normalization, read_normalization
from endcap.repository.onnx_file import read_onnx
from endcap.triton.ensemble import (
    PREPROCESS_BACKEND,
    find_network,
    read_ensemble,
    stage_parameters,
)
from endcap.triton.model_config import CONFIG_NAME, read_config, set_parameter, write_config
from endcap.triton.model_folder import read_repository

_USUAL_ENSEMBLE = "detect"
# What the network's input decides; changing it takes another network or another export.
OF_NETWORK = ("size", "layout", "dtype")


@dataclass(frozen=True, kw_only=True)
class Served:
    """An ensemble of a repository.

    Attributes:
        parameters: Of its step in endcap_preprocess.
        config: The config.pbtxt that has them.
        network: The ONNX file behind it; None where there is none.
    """

    parameters: Mapping[str, str]
    config: Path
    network: Path | None

    def read_normalization(self) -> tuple[Normalization | None, str]:
        """Return what the network does to its images first, or why that is not known."""
        if self.network is None:
            return None, ""
        try:
            return read_normalization(read_onnx(self.network)), ""
        except RepositoryError as error:
            return None, f"whether the network itself normalises is not known: {error}"

    def write(self, settings: Mapping[str, str]) -> str:
        """Set parameters in config.pbtxt and return its unified diff.

        What the network's input decides is left alone.

        Raises:
            InvalidArgumentError: A config.pbtxt in which a parameter cannot be set.
            ServerError: One that cannot be read or written.
        """
        before = after = read_config(self.config)
        for name, value in settings.items():
            if name not in OF_NETWORK:
                after = set_parameter(after, name, value)
        if after == before:
            return ""
        write_config(self.config, after)
        # Carriage returns stay in the lines, and undecodable bytes are shown escaped.
        old, new = (
            text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").split("\n")
            for text in (before, after)
        )
        name = str(self.config)
        return "\n".join(difflib.unified_diff(old, new, name, name, lineterm=""))


def read_served(repository: Path, model: str | None) -> Served:
    """Return an ensemble of a repository; None is `detect`, else the only one.

    Raises:
        InvalidArgumentError: The repository has no ensemble or several, and none is named.
        ServerError: A configuration that cannot be read.
        UnsupportedError: The model is not an ensemble of preprocess, network and postprocess.
    """
    ensemble = read_ensemble(repository, model or _find_ensemble(repository))
    parameters = stage_parameters(ensemble, PREPROCESS_BACKEND)
    return Served(
        parameters=parameters,
        config=ensemble.steps_in(PREPROCESS_BACKEND)[0].folder / CONFIG_NAME,
        network=find_network(ensemble).find_file(),
    )


def _find_ensemble(repository: Path) -> str:
    if (repository / _USUAL_ENSEMBLE).is_dir() or not repository.is_dir():
        return _USUAL_ENSEMBLE
    ensembles = [model.path.name for model in read_repository(repository) if model.steps]
    if len(ensembles) != 1:
        has = (
            f"has the ensembles {', '.join(sorted(ensembles))}" if ensembles else "has no ensemble"
        )
        raise InvalidArgumentError(f"{repository} {has}; name one with --model")
    return ensembles[0]
