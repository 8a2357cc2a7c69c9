"""The client for threads. Made of `_async` by scripts/generate_sync_client.py."""
