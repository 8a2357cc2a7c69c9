"""Prints what CMake must know of the DALI of this Python, as a list; cmake/EndcapDali.cmake asks."""

import nvidia.dali as dali
from nvidia.dali import backend, sysconfig

release = [dali.__version__, f"{dali.__git_sha__}-cuda{dali.__cuda_version__}"]
folders = [sysconfig.get_include_dir(), sysconfig.get_lib_dir()]
print(*release, backend.GetCxx11AbiFlag(), *folders, *dali.__path__, sep=";")
