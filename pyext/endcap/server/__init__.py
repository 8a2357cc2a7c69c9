"""Runs a Triton server: finds it, composes its backend folder, starts and stops it."""

from endcap.server.launch import TritonServer
from endcap.server.locate import ServerInstallation, locate_server
from endcap.server.ports import ServerPorts
from endcap.server.settings import ServerSettings
from endcap.triton.errors import ServerError

__all__ = [
    "ServerError",
    "ServerInstallation",
    "ServerPorts",
    "ServerSettings",
    "TritonServer",
    "locate_server",
]
