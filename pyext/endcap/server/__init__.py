"""Triton server as a child process: located or installed, started on a repository, stopped.

The steps of `TritonServer.start` (`launch`):

    leftovers.sweep -> plan.plan_launch -> process.ServerProcess -> log.LogPump -> ready
                         |-- models          chosen models, seen through links
                         |-- locate          the server; private_server installs endcap's own
                         |-- exposure        addresses and APIs that clients may use
                         |-- settings        ports
                         |-- backends        the folder of --backend-directory
                         `-- python_stub, private_server    the Python of Python models

What a launch writes to disk, and what removes it:

    TMPDIR/endcap-UID/server-TOKEN/   links to models and backends, the server's working folder,
                                      the environment of Python models. `TritonServer.stop`;
                                      after a kill the next start of any server by the same user
                                      with the same TMPDIR (`leftovers.sweep`), once no process of
                                      the old server runs: the kernel ends it with its launcher
                                      where `setpriv` is installed.
    /dev/shm/endcap-server-TOKEN-*    regions of Python-backend models. The server; then `stop`;
                                      after a kill the same sweep, which knows them by the folder.
    CACHE/endcap/server/*             endcap's own server and packages for Python models, with
                                      CACHE as XDG_CACHE_HOME or ~/.cache. Kept between launches;
                                      `endcap server remove` (`cache.remove_all`) removes all but
                                      the empty .lock. A killed installation leaves
                                      .endcap-server-TOKEN.partial there, until the next one or
                                      `endcap server remove`.
    the log file                      where one is named. The user.

`repository_with` (of `endcap evaluate`) has TMPDIR/endcap-UID/repository-TOKEN/, which goes with
its block, or after a kill with the next start. Nothing is written into the model repository but
what Python models write there themselves, as `__pycache__`. Triton unpacks EXECUTION_ENV_PATH into
/tmp/python_env_*, and removes that when it ends; endcap never does.
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
