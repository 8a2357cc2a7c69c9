"""Triton server as a child process: located or installed, started on a repository, stopped.

The steps of `TritonServer.start` (`launch`):

    leftovers.sweep -> plan.plan_launch -> process.ServerProcess -> log.LogPump -> ready
                         |-- models          chosen models, seen through links
                         |-- locate          the server; private_server installs endcap's own
                         |-- exposure        addresses and APIs that clients may use
                         |-- settings        ports
                         |-- backends        the folder of --backend-directory
                         `-- python_stub, private_server    the Python of Python models

docs/triton.md, "What serve leaves on disk", lists each file and folder and who removes it. In code:

- `launch` makes the scratch folder of a launch, `models.repository_with` that of an evaluation,
  `private_server` those of downloads. Each goes with its block; after a kill with the next start of
  a server, by `leftovers.sweep`. A launch's goes with its regions in /dev/shm, and only once no
  process of its server runs.
- `cache.make_entry` keeps endcap's own server and the packages of Python models between launches;
  `cache.remove_all` removes them, but for entries that are in use or hold files of others.
- `log.open_log_file` appends to the log file that the user names.
"""

from endcap.server.launch import LoadedModel, TritonServer
from endcap.server.locate import ServerInstallation, locate_server
from endcap.server.settings import ServerPorts, ServerSettings
from endcap.triton.errors import ServerError

__all__ = [
    "LoadedModel",
    "ServerError",
    "ServerInstallation",
    "ServerPorts",
    "ServerSettings",
    "TritonServer",
    "locate_server",
]
