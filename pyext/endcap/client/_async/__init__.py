"""Whatever of the client sends requests, waits or holds locks: for asyncio, the source of `_sync`.

`endcap.client.synchronization` has what differs between tasks and threads.
"""
