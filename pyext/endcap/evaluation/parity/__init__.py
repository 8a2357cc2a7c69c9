"""Comparison of endcap's tensors with those of a training pipeline, and the parameters to set."""
