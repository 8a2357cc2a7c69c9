"""Measures a served detector on annotated images, beside another way of running the same model."""
