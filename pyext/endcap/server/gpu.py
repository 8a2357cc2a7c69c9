"""How many GPUs the server will see, and how much memory to set aside on each."""

from __future__ import annotations

from endcap.triton.model_folder import ModelFolder

TRITON_DEFAULT_POOL_MB = 64
_BATCHES_IN_FLIGHT = 2  # one batch is being filled while the step after it reads another


def pool_megabytes(models: list[ModelFolder]) -> int:
    """Return the size of the CUDA pool that keeps an ensemble's tensors on the GPU, in MiB.

    Counts every fixed-size tensor of every model at its largest batch, for two batches in flight,
    and is never below Triton's own default.
    """
    total_bytes = _BATCHES_IN_FLIGHT * sum(model.tensor_bytes for model in models)
    return max(TRITON_DEFAULT_POOL_MB, -(-total_bytes // 2**20))
