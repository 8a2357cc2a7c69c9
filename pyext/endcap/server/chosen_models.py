"""A part of a repository: some models, with the steps of the ensembles among them."""

from __future__ import annotations

from collections.abc import Iterable

from endcap.triton.errors import ServerError
from endcap.triton.model_folder import ModelFolder


def choose_models(models: Iterable[ModelFolder], names: Iterable[str]) -> list[ModelFolder]:
    """Return the named models and the steps of those that are ensembles, by name.

    Raises ServerError for a name that the repository does not have. A step that it does not have
    is left to the server, whose message names the ensemble.
    """
    known = {model.path.name: model for model in models}
    waiting = list(names)
    for name in waiting:
        if name not in known:
            raise ServerError(
                f"the repository has no model '{name}'; its models are {', '.join(sorted(known))}"
            )
    chosen: dict[str, ModelFolder] = {}
    while waiting:
        name = waiting.pop()
        if name in known and name not in chosen:
            chosen[name] = known[name]
            waiting += known[name].steps
    return [chosen[name] for name in sorted(chosen)]
