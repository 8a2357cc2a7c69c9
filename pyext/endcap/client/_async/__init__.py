"""The client for asyncio: all of it that sends requests, waits or holds locks; source of `_sync`.

`endcap.client.synchronization` has the primitives that differ between tasks and threads.
"""
