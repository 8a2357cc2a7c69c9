"""Regions of shared memory: their files, what a pool has of them, and their use for a time."""
