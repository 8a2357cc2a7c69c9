"""The old name of the shared-memory pools in endcap.client."""

from __future__ import annotations

import warnings

from endcap.client._async.shared_memory_pool import AsyncSharedMemoryPool
from endcap.client._sync.shared_memory_pool import SharedMemoryPool
from endcap.client.regions.lease import Lease
from endcap.client.regions.sigterm import exit_on_sigterm

__all__ = ["AsyncSharedMemoryPool", "Lease", "SharedMemoryPool", "exit_on_sigterm"]

warnings.warn(
    "endcap.client.shared_memory is now endcap.client: import it from there",
    DeprecationWarning,
    stacklevel=2,
)
