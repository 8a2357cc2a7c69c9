"""Differences between endcap's tensors and those of a training pipeline, and their causes."""
