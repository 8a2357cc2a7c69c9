"""Regions of shared memory, their leases, and the regions of a pool."""
