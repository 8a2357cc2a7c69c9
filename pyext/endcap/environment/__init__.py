"""Execution environments of Python-backend models, and the stub that checks them.

py-rattler, conda-pack and packaging are imported where they are used: the command line starts
without them.
"""
