"""What the launcher asks of a server over HTTP; needs no client library."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

_ANSWER_WITHIN_S = 5.0
_LOADED_WITHIN_S = 120.0
# A server on this machine is never behind a proxy, whatever the environment says.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class LoadedModel:
    """One version of a model that a server has loaded."""

    name: str
    version: str


def is_ready(http_url: str) -> bool:
    """Whether the server answers and every model is ready."""
    return _says_yes(f"{http_url}/v2/health/ready")


def is_model_ready(http_url: str, name: str) -> bool:
    """Whether the server answers and this model is ready."""
    return _says_yes(f"{http_url}/v2/models/{urllib.parse.quote(name, safe='')}/ready")


def _says_yes(url: str) -> bool:
    try:
        with _OPENER.open(url, timeout=_ANSWER_WITHIN_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return False  # not yet: the caller watches the process and the clock


def loaded_models(http_url: str) -> list[LoadedModel]:
    """Return the models that the server has loaded, by name; OSError when it does not answer."""
    # Of the statistics, as the repository's index is closed.
    with _OPENER.open(f"{http_url}/v2/models/stats", timeout=_ANSWER_WITHIN_S) as answer:
        models = json.load(answer)["model_stats"]
    return sorted(
        (LoadedModel(each["name"], each["version"]) for each in models),
        key=lambda model: (model.name, model.version),
    )


def takes_key(http_url: str, headers: Mapping[str, str]) -> bool:
    """Return whether the server lets those with these headers load models."""
    request = _post(f"{http_url}/v2/repository/index", headers)
    try:
        with _OPENER.open(request, timeout=_ANSWER_WITHIN_S) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False


def reload_model(http_url: str, name: str, headers: Mapping[str, str]) -> None:
    """Unload a model and load it; OSError where the server does not do it.

    Ensembles over it go and come back with it. The server's own loading again would not do: it
    leaves a model as it is whose files are as they were.

    Args:
        headers: With which the server lets the launcher do it.
    """
    model = f"{http_url}/v2/repository/models/{urllib.parse.quote(name, safe='')}"
    for action in ("unload", "load"):
        request = _post(f"{model}/{action}", headers)
        with _OPENER.open(request, timeout=_LOADED_WITHIN_S):
            pass


def _post(url: str, headers: Mapping[str, str]) -> urllib.request.Request:
    return urllib.request.Request(url, data=b"{}", headers=dict(headers), method="POST")
