"""Launch plan: command line, environment and folders of a server, checked before it starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from endcap.server import private_server, python_stub
from endcap.server.backends import (
    compose_backend_directory,
    find_operators,
    needs_stub,
    onnxruntime_options,
)
from endcap.server.exposure import check_exposure, restriction_options
from endcap.server.locate import ServerInstallation, locate_or_install_server
from endcap.server.models import (
    LeftOut,
    check_model_names,
    check_scratch,
    choose_models,
    leave_out,
    link_models,
    link_repository,
    pool_megabytes,
)
from endcap.server.private_server import show_nothing
from endcap.server.release import ServerRelease, read_release
from endcap.server.settings import PortReservation, ServerPorts, ServerSettings
from endcap.triton.errors import ServerError
from endcap.triton.installation import OUR_BACKENDS, gpu_count
from endcap.triton.model_folder import ModelFolder, check_config_name, read_repository

# Seconds of a stop for unloading the models: Triton waits for requests in flight that much shorter.
_UNLOADING_S = 5
_VERTEX_AI = "AIP_"
_OTLP_PATH = "/v1/traces"  # of a collector, by OTLP's specification
_SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """What is needed to start the process."""

    command: list[str]
    environment: dict[str, str]
    working_directory: Path  # an empty one: stubs search theirs for Python modules
    reservation: PortReservation  # to be closed when the server listens
    installation: ServerInstallation
    release: ServerRelease
    repository: Path  # where the server sees the models: links to where they are
    shared_memory_prefix: str  # of the regions in /dev/shm that Python-backend models make
    left_out: LeftOut | None  # models that are not served for want of what they run on

    @property
    def ports(self) -> ServerPorts:
        """The ports that the server is told to listen on."""
        return self.reservation.ports


def plan_launch(
    repository: Path,
    settings: ServerSettings,
    scratch: Path,
    progress: Callable[[str], None] = show_nothing,
) -> LaunchPlan:
    """Check repository, server, ports and Python; install what is missing of endcap's own.

    Args:
        repository: A folder of model folders.
        settings: What the user has decided.
        scratch: An empty folder, which is filled.
        progress: Is called with a message when a download or an installation begins.

    Raises:
        ServerError: Something keeps the server from serving.
        OSError: endcap's cache cannot be written.
    """
    check_scratch(scratch)
    models, left_out = read_repository(repository, settings.config_name), None
    if settings.models:
        models = choose_models(models, settings.models)
    if settings.config_name is not None:
        check_config_name(models, settings.config_name)
    check_model_names(models)
    installation = locate_or_install_server(settings.tritonserver, progress)
    release = read_release(installation)
    check_exposure(release, settings)
    if not settings.models:  # what is named is served, or its load says why not
        models, left_out = leave_out(models, installation)
    reservation = PortReservation(settings.host, settings.ports)
    packages = _packages(models, installation, progress)  # says most of a Python that has none
    backends = scratch / "backends"
    backends.mkdir()
    compose_backend_directory(
        backends,
        installation,
        needed={model.backend for model in models} if settings.models else OUR_BACKENDS,
        with_python=_has_python(models, installation),
    )
    environment = server_environment(installation, scratch, packages)
    _check_python_models(models, installation, environment)
    some = settings.models or left_out
    link = link_models(models, scratch) if some else link_repository(repository, scratch)
    working_directory = scratch / "cwd"
    working_directory.mkdir()
    region_prefix = f"{scratch.name}-"
    command = [
        str(installation.executable),
        f"--model-repository={link}",
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={region_prefix}",
        *_config_options(models, settings),
        *onnxruntime_options(models, installation),
        *_optional_folders(installation),
        *_listen_options(settings.host, reservation.ports),
        *_memory_options(models, settings),
        "--exit-on-error=true",
        f"--exit-timeout-secs={max(1, int(settings.stop_timeout_s) - _UNLOADING_S)}",
        *restriction_options(release, settings),
        *trace_options(settings),
        *(["--log-verbose=1"] if settings.verbose else []),
    ]
    return LaunchPlan(
        command=command,
        environment=_with_absolute_paths(environment),
        working_directory=working_directory,
        reservation=reservation,
        installation=installation,
        release=release,
        repository=link,
        shared_memory_prefix=region_prefix,
        left_out=left_out,
    )


def server_environment(
    installation: ServerInstallation, scratch: Path, packages: Path | None = None
) -> dict[str, str]:
    """Return the environment variables that the server runs with.

    Args:
        installation: The server.
        scratch: Gets a link to libpython, and the environment of Python models.
        packages: What endcap has installed for Python models. They run in an environment of these
            packages on endcap's own server, and in the one of the running Python on others.

    Raises:
        ServerError: Python-backend models would not find the running Python.
    """
    # With Vertex AI's variables a server also listens on every address, without restrictions.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_VERTEX_AI)
    }
    environment.setdefault("ORT_DISABLE_TELEMETRY", "1")
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
        if packages is not None:
            folder = private_server.make_environment(scratch / "python", packages)
            environment["PATH"] = _joined([str(folder)], os.environ, "PATH")
        elif not installation.is_private:
            folder = python_stub.python_program_dir()
            environment["PATH"] = _joined([str(folder)], os.environ, "PATH")
    environment["LD_LIBRARY_PATH"] = _joined(libraries, os.environ, "LD_LIBRARY_PATH")
    return environment


def _joined(first: list[str], environment: os._Environ[str], name: str) -> str:
    return os.pathsep.join([*first, *filter(None, [environment.get(name)])])


def _with_absolute_paths(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment with search paths that mean the same in any working directory."""
    found = {name: environment[name] for name in _SEARCH_PATHS if name in environment}
    return environment | {
        name: os.pathsep.join(map(os.path.abspath, filter(None, value.split(os.pathsep))))
        for name, value in found.items()
    }


def _has_python(models: list[ModelFolder], installation: ServerInstallation) -> bool:
    """Return whether the server gets its Python backend: a model runs in it, or a stub fits."""
    if installation.stubs_dir is None or any(model.runs_python for model in models):
        return True
    return python_stub.has_stub(installation.stubs_dir)


def _packages(
    models: list[ModelFolder],
    installation: ServerInstallation,
    progress: Callable[[str], None],
) -> Path | None:
    """Return what endcap's own server has for Python models; None where none needs it."""
    if not installation.is_private or not any(model.uses_server_python for model in models):
        return None
    return private_server.install_packages(progress, models=models)


def _check_python_models(
    models: list[ModelFolder], installation: ServerInstallation, environment: dict[str, str]
) -> None:
    python_models = [model.path.name for model in models if model.uses_shared_python]
    if not python_models or not needs_stub(installation) or installation.stubs_dir is None:
        return
    if not installation.is_private:
        python_stub.check_numpy(python_models)
    python_stub.check_stub_runs(python_stub.find_stub(installation.stubs_dir), environment)


def _config_options(models: list[ModelFolder], settings: ServerSettings) -> list[str]:
    """Return options for configs/NAME.pbtxt, and DALI operators for NVIDIA's DALI backend."""
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


def trace_options(settings: ServerSettings) -> list[str]:
    """Return the options of Triton for `trace_url` and `trace_every`.

    Raises:
        ServerError: The URL cannot be one of a collector, or is missing.
    """
    if settings.trace_url is None:
        if settings.trace_every:
            raise ServerError(
                f"one request in {settings.trace_every} is to be traced, but no receiver is named; "
                "give its address with --trace-url (`trace_url=` in Python)"
            )
        return []
    url = urlsplit(settings.trace_url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ServerError(
            f"trace URL '{settings.trace_url}' is no address of a collector; give one of OTLP over "
            "HTTP, such as http://127.0.0.1:4318/v1/traces"
        )
    if url.path in ("", "/"):
        url = url._replace(path=_OTLP_PATH)
    return [
        "--trace-config=mode=opentelemetry",
        "--trace-config=level=TIMESTAMPS",
        f"--trace-config=rate={settings.trace_every}",
        "--trace-config=count=-1",
        f"--trace-config=opentelemetry,url={url.geturl()}",
    ]


def _memory_options(models: list[ModelFolder], settings: ServerSettings) -> list[str]:
    cuda_mb = settings.cuda_pool_mb
    if cuda_mb is None:
        cuda_mb = pool_megabytes(models)
    options = [
        f"--cuda-memory-pool-byte-size={device}:{cuda_mb * 2**20}" for device in range(gpu_count())
    ]
    if settings.pinned_pool_mb is not None:
        options.append(f"--pinned-memory-pool-byte-size={settings.pinned_pool_mb * 2**20}")
    return options
