"""Execution environments of Python-backend models: built, packed, tried out, given to models.

py-rattler, conda-pack and packaging are imported where they are used: the command line starts
without them.
"""
