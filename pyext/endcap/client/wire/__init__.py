"""Triton's two protocols: the messages, and what carries them."""
