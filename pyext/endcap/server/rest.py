"""What the launcher asks of a server over HTTP; needs no client library."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass

_RESPONSE_WITHIN_S = 5.0
# A server on this machine is never behind a proxy, whatever the environment says.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class LoadedModel:
    """One version of a model that a server has loaded."""

    name: str
    version: str


def is_ready(http_url: str) -> bool:
    """Whether the server answers and every model is ready."""
    try:
        with _OPENER.open(f"{http_url}/v2/health/ready", timeout=_RESPONSE_WITHIN_S) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return False  # not yet: the caller watches the process and the clock


def loaded_models(http_url: str) -> list[LoadedModel]:
    """Return the models that the server has loaded, by name; OSError when it does not answer."""
    # Of the statistics, as the repository's index is closed.
    with _OPENER.open(f"{http_url}/v2/models/stats", timeout=_RESPONSE_WITHIN_S) as response:
        models = json.load(response)["model_stats"]
    return sorted(
        (LoadedModel(each["name"], each["version"]) for each in models),
        key=lambda model: (model.name, model.version),
    )
