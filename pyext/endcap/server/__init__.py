"""Triton server as a child process: located or installed, started on a repository, stopped.

The steps of `TritonServer.start` (`launch`):

    plan.plan_launch -> process.ServerProcess -> ready
      |-- models          chosen models, seen through links
      |-- locate          the server; private_server installs endcap's own
      |-- release         its age, and the APIs that clients may use
      |-- settings        ports
      |-- backends        the folder of --backend-directory
      `-- python_stub, private_server    the Python of Python models

docs/serving.md, "What serve leaves on disk", lists each file and folder and who removes it.
"""

from endcap.errors import ServerError
from endcap.server.launch import LoadedModel, TritonServer
from endcap.server.locate import ServerInstallation, locate_server
from endcap.server.settings import ServerPorts, ServerSettings

__all__ = [
    "LoadedModel",
    "ServerError",
    "ServerInstallation",
    "ServerPorts",
    "ServerSettings",
    "TritonServer",
    "locate_server",
]
