"""The ensemble of a repository whose parameters `endcap parity` compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endcap.errors import InvalidArgumentError
from endcap.triton.ensemble import find_network, read_ensemble
from endcap.triton.model_folder import read_repository

_USUAL_ENSEMBLE = "detect"


def read_served(repository: Path, model: str | None) -> tuple[dict[str, Any], Path | None]:
    """Return the parameters of an ensemble's step in endcap_preprocess, and its network's file.

    Args:
        repository: The model repository.
        model: The ensemble's name; None is `detect`, else the only one.

    Raises:
        InvalidArgumentError: The repository has no ensemble or several, and none is named.
        ServerError: A configuration that cannot be read.
        UnsupportedError: The model is not an ensemble of preprocess, network and postprocess.
    """
    network = find_network(read_ensemble(repository, model or _find_ensemble(repository)))
    return network.preprocess, network.find_file()


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
