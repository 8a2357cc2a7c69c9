"""Execution environments of Python-backend models: built, packed, tried out, given to models."""
