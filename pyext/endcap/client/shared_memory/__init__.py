"""Pools of memory that this process and a Triton server on the same machine share."""

from endcap.client.shared_memory.aio_pool import AsyncSharedMemoryPool
from endcap.client.shared_memory.lease import Lease
from endcap.client.shared_memory.pool import SharedMemoryPool
from endcap.client.shared_memory.region import Kind

__all__ = ["AsyncSharedMemoryPool", "Kind", "Lease", "SharedMemoryPool"]
