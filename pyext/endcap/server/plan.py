"""Launch plan: command line, environment and folders of a server, checked before it starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from endcap.errors import ServerError
from endcap.server import private_server, python_stub
from endcap.server.backends import (
    compose_backend_directory,
    find_operators,
    needs_stub,
    onnxruntime_options,
)
from endcap.server.locate import ServerInstallation, locate_or_install_server
from endcap.server.models import (
    check_model_names,
    check_scratch,
    choose_models,
    leave_out,
    link_models,
    pool_megabytes,
)
from endcap.server.release import ServerRelease, check_exposure, read_release, restriction_options
from endcap.server.settings import PortReservation, ServerSettings
from endcap.triton.installation import OUR_BACKENDS, gpu_count
from endcap.triton.model_folder import check_config_name, read_repository

# Seconds of a stop for unloading the models: Triton waits for requests in flight that much shorter.
_UNLOADING_S = 5
_VERTEX_AI = "AIP_"
_OTLP_PATH = "/v1/traces"  # of a collector, by OTLP's specification


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
    left_out: str  # models that are not served, and what they lack; "" without any


def plan_launch(
    repository: Path,
    settings: ServerSettings,
    scratch: Path,
    progress: Callable[[str], None] = lambda _: None,
) -> LaunchPlan:
    """Check repository, server, ports and Python; install what is missing of endcap's own.

    Args:
        repository: A folder of model folders.
        settings: What the user has decided.
        scratch: An empty folder, which is filled.
        progress: Is called with a message when a download or an installation begins.

    Raises:
        ServerError: Something keeps the server from serving.
        UnsupportedError: endcap's cache cannot be used.
        OSError: endcap's cache cannot be written.
    """
    check_scratch(scratch)
    models, left_out = read_repository(repository, settings.config_name), ""
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
    packages = None
    if installation.is_private and any(model.uses_server_python for model in models):
        packages = private_server.install_packages(progress)
    backends = scratch / "backends"
    backends.mkdir()
    needed = {model.backend for model in models} if settings.models else OUR_BACKENDS
    compose_backend_directory(backends, installation, needed=needed)
    environment = server_environment(installation, scratch, packages)
    in_stubs = [model.path.name for model in models if model.uses_shared_python]
    stubs = installation.stubs_dir if needs_stub(installation) else None
    if in_stubs and stubs is not None:
        if not installation.is_private:
            python_stub.check_numpy(in_stubs)
        python_stub.check_stub_runs(python_stub.find_stub(stubs), environment)
    link = scratch / "repository"
    if settings.models or left_out:
        link_models(models, link)
    else:  # models that are added later can be loaded
        link.symlink_to(repository.resolve(), target_is_directory=True)
    working_directory = scratch / "cwd"
    working_directory.mkdir()
    region_prefix = f"{scratch.name}-"
    options = {
        "model-repository": link,
        "model-config-name": settings.config_name,
        "backend-directory": backends,
        "cache-directory": installation.caches_dir,
        "exit-on-error": "true",
        "exit-timeout-secs": max(1, int(settings.stop_timeout_s) - _UNLOADING_S),
        "log-verbose": 1 if settings.verbose else None,
    }
    for service, port in vars(reservation.ports).items():
        options |= {f"{service}-address": settings.host, f"{service}-port": port}
    command = [
        str(installation.executable),
        *(f"--{name}={value}" for name, value in options.items() if value is not None),
        f"--backend-config=python,shm-region-prefix-name={region_prefix}",
        *onnxruntime_options(models, installation),
        *(
            f"--cuda-memory-pool-byte-size={device}:{pool_megabytes(models) * 2**20}"
            for device in range(gpu_count())
        ),
        *restriction_options(release, settings),
        *trace_options(settings),
    ]
    if any(model.backend == "dali" for model in models):
        command.append(f"--backend-config=dali,plugin_libs={find_operators()}")
    return LaunchPlan(
        command=command,
        environment=environment,
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
    first = {"LD_LIBRARY_PATH": [installation.library_dir], "PATH": [], "PYTHONPATH": []}
    if needs_stub(installation):
        libpython = python_stub.find_libpython()
        if libpython is not None:
            # A folder with this one library: its own folder may hold others that the server, which
            # brings its own, must not pick up.
            folder = scratch / "libpython"
            folder.mkdir()
            (folder / libpython.name).symlink_to(libpython)
            first["LD_LIBRARY_PATH"].insert(0, folder)
        if packages is not None:
            first["PATH"].append(private_server.make_environment(scratch / "python", packages))
        elif not installation.is_private:
            first["PATH"].append(python_stub.python_program_dir())
    for name, folders in first.items():
        found = [*map(str, filter(None, folders)), *environment.get(name, "").split(os.pathsep)]
        # Absolute, as the server has another working directory.
        paths = os.pathsep.join(map(os.path.abspath, filter(None, found)))
        if paths or name in environment:
            environment[name] = paths
    return environment


def trace_options(settings: ServerSettings) -> list[str]:
    """Return the options of Triton for `trace_url` and `trace_every`.

    Raises:
        ServerError: The URL cannot be one of a collector, or is missing.
    """
    if settings.trace_url is None and not settings.trace_every:
        return []
    url = urlsplit(settings.trace_url or "")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ServerError(
            f"trace URL '{url.geturl()}' is not the address of a collector; give one of OTLP over "
            "HTTP with --trace-url (`trace_url=` in Python), such as "
            "http://127.0.0.1:4318/v1/traces"
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
