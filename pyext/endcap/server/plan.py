"""From settings to a command line: looks at everything that can be known before a server starts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from endcap.server import gpu, python_stub
from endcap.server.backend_directory import compose_backend_directory, needs_stub
from endcap.server.chosen_models import choose_models
from endcap.server.dali_operators import find_operators
from endcap.server.leftovers import shared_memory_prefix
from endcap.server.locate import ServerInstallation, locate_server
from endcap.server.optional_models import LeftOut, leave_out
from endcap.server.ports import ServerPorts, resolve_ports
from endcap.server.repository import ModelFolder, check_config_name, read_repository
from endcap.server.restriction import Restriction, restrict
from endcap.server.settings import ServerSettings
from endcap.server.shell_words import (
    check_model_names,
    check_scratch,
    link_models,
    link_repository,
)

_UNLOADING_TAKES_S = (
    5  # of a stop, after the requests in flight: that much earlier Triton drops them
)
_SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """All that starting the process takes."""

    command: list[str]
    environment: dict[str, str]
    working_directory: Path  # an empty one: stubs search theirs for Python modules
    ports: ServerPorts
    repository: Path  # where the server sees the models: links to where they are
    shared_memory_prefix: str  # of the regions in /dev/shm that Python-backend models make
    restriction: Restriction
    left_out: LeftOut | None  # models that are not served for want of what they run on


def plan_launch(repository: Path, settings: ServerSettings, scratch: Path) -> LaunchPlan:
    """Checks repository, server, ports and Python, and fills the empty folder `scratch`.

    Raises ServerError for whatever would keep the server from serving.
    """
    check_scratch(scratch)
    models, left_out = read_repository(repository, settings.config_name), None
    if settings.models:
        models = choose_models(models, settings.models)
    if settings.config_name is not None:
        check_config_name(models, settings.config_name)
    check_model_names(models)
    installation = locate_server(settings.tritonserver)
    if not settings.models:  # what is named is served, or its load says why not
        models, left_out = leave_out(models)
    ports = resolve_ports(settings.host, settings.ports)
    backends = scratch / "backends"
    backends.mkdir()
    compose_backend_directory(backends, installation)
    environment = server_environment(installation, scratch)
    _check_python_models(models, installation, environment)
    some = settings.models or left_out
    link = link_models(models, scratch) if some else link_repository(repository, scratch)
    working_directory = scratch / "cwd"
    working_directory.mkdir()
    region_prefix = shared_memory_prefix(scratch)
    restriction = restrict(installation, settings)
    command = [
        str(installation.executable),
        f"--model-repository={link}",
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={region_prefix}",
        *_config_options(models, settings),
        *_optional_folders(installation),
        *_listen_options(settings.host, ports),
        *_memory_options(models, settings),
        "--exit-on-error=true",
        f"--exit-timeout-secs={max(1, int(settings.stop_timeout_s) - _UNLOADING_TAKES_S)}",
        *(["--model-control-mode=explicit", "--load-model=*"] if settings.revive else []),
        *restriction.options,
        *(["--log-verbose=1"] if settings.verbose else []),
    ]
    return LaunchPlan(
        command=command,
        environment=_with_absolute_paths(environment) | restriction.environment,
        working_directory=working_directory,
        restriction=restriction,
        ports=ports,
        repository=link,
        shared_memory_prefix=region_prefix,
        left_out=left_out,
    )


def server_environment(installation: ServerInstallation, scratch: Path) -> dict[str, str]:
    """Returns the environment that the server runs in; `scratch` gets a link to libpython.

    Raises ServerError where Python-backend models would not find the running Python.
    """
    environment = dict(os.environ)
    libraries = [str(installation.library_dir)] if installation.library_dir else []
    if needs_stub(installation):
        libpython = python_stub.find_libpython()
        if libpython is not None:
            # A folder with this one library: its own folder may hold others that the server, which
            # brings its own, must not pick up.
            folder = scratch / "libpython"
            folder.mkdir()
            (folder / libpython.name).symlink_to(libpython)
            libraries.insert(0, str(folder))
        environment["PATH"] = _joined([str(python_stub.python_program_dir())], os.environ, "PATH")
    environment["LD_LIBRARY_PATH"] = _joined(libraries, os.environ, "LD_LIBRARY_PATH")
    return environment


def _joined(first: list[str], environment: os._Environ[str], name: str) -> str:
    return os.pathsep.join([*first, *filter(None, [environment.get(name)])])


def _with_absolute_paths(environment: dict[str, str]) -> dict[str, str]:
    """Returns the environment with search paths that mean the same in any working directory."""
    found = {name: environment[name] for name in _SEARCH_PATHS if name in environment}
    return environment | {
        name: os.pathsep.join(map(os.path.abspath, filter(None, value.split(os.pathsep))))
        for name, value in found.items()
    }


def _check_python_models(
    models: list[ModelFolder], installation: ServerInstallation, environment: dict[str, str]
) -> None:
    python_models = [model.path.name for model in models if model.uses_shared_python]
    if not python_models or not needs_stub(installation) or installation.stubs_dir is None:
        return
    python_stub.check_numpy(python_models)
    python_stub.check_stub_runs(python_stub.find_stub(installation.stubs_dir), environment)


def _config_options(models: list[ModelFolder], settings: ServerSettings) -> list[str]:
    """What takes configs/NAME.pbtxt, and endcap's operators for models of NVIDIA's DALI backend."""
    named = [f"--model-config-name={settings.config_name}"] if settings.config_name else []
    if any(model.backend == "dali" for model in models):
        named.append(f"--backend-config=dali,plugin_libs={find_operators()}")
    return named


def _optional_folders(installation: ServerInstallation) -> list[str]:
    folders = {
        "--cache-directory": installation.caches_dir,
        "--repoagent-directory": installation.repository_agents_dir,
    }
    return [f"{option}={folder}" for option, folder in folders.items() if folder is not None]


def _listen_options(host: str, ports: ServerPorts) -> list[str]:
    return [
        f"--http-address={host}",
        f"--http-port={ports.http}",
        f"--grpc-address={host}",
        f"--grpc-port={ports.grpc}",
        f"--metrics-address={host}",
        f"--metrics-port={ports.metrics}",
    ]


def _memory_options(models: list[ModelFolder], settings: ServerSettings) -> list[str]:
    cuda_mb = settings.cuda_pool_mb
    if cuda_mb is None:
        cuda_mb = gpu.pool_megabytes(models)
    options = [
        f"--cuda-memory-pool-byte-size={device}:{cuda_mb * 2**20}"
        for device in range(gpu.gpu_count())
    ]
    if settings.pinned_pool_mb is not None:
        options.append(f"--pinned-memory-pool-byte-size={settings.pinned_pool_mb * 2**20}")
    return options
