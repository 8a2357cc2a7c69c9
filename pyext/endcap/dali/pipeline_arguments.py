"""Pipelines that pass arguments on to an operator, which DALI's own decorator does not allow."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from endcap.dali.installation import find_dali

_Graph = TypeVar("_Graph", bound=Callable[..., Any])


def operator_pipeline(graph: _Graph) -> _Graph:
    """Make a function that defines a graph one that returns a pipeline, as `pipeline_def` does.

    Keyword arguments of DALI's Pipeline, such as ``batch_size``, go there; all others go to the
    graph. Without a DALI that fits DaliError is raised.
    """

    @functools.wraps(graph)
    def create(*args: Any, **arguments: Any) -> Any:
        find_dali()
        from nvidia.dali import Pipeline, pipeline_def

        known = inspect.signature(Pipeline.__init__).parameters
        of_pipeline = {name: arguments.pop(name) for name in [*arguments] if name in known}

        def define() -> Any:
            return graph(*args, **arguments)

        return pipeline_def(**of_pipeline)(define)()

    create._is_pipeline_def = True  # type: ignore[attr-defined]  # DALI's autoserialize asks
    return create  # type: ignore[return-value]
