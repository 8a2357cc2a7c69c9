"""Where a model instance works."""

from __future__ import annotations

from collections.abc import Mapping

from endcap import _core
from endcap._device import Target
from endcap.errors import CudaError


def target_of(args: Mapping[str, str]) -> Target | None:
    """Return the GPU of an instance, None for the CPU.

    Args:
        args: what the server hands to ``initialize``.

    Raises:
        CudaError: the instance is one of a GPU that endcap cannot use.
    """
    if args["model_instance_kind"] != "GPU":
        return None
    target = Target(int(args["model_instance_device_id"]))
    try:
        _core.require_cuda(target.device_id)
    except CudaError as error:
        raise CudaError(
            f"{error}; to work on the CPU, give the model's config instance_group "
            "{ kind: KIND_CPU }"
        ) from error
    return target
