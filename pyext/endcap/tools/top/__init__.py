"""Rates of a running Triton server from its metrics: `metrics`, `rates`, `table`, `watch`."""
