"""The pool of shared memory for asyncio."""
