"""endcap serve: runs a Triton server on a model repository.

docs/serving.md lists what it leaves on disk, and who removes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from endcap.cli.console import PlainConsole, check_stop, installing, say, stopped_by_signals
from endcap.cli.init import DEFAULT_OUTPUT, print_decisions, write_models
from endcap.cli.options import command, panel
from endcap.client import ClientArguments
from endcap.errors import EndcapError
from endcap.repository.errors import RepositoryError
from endcap.repository.options import InitOptions
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.release import BULLETINS

EXAMPLES = """
**Examples**

- `endcap serve model_repository`

- `endcap serve yolov8n.onnx`

- `endcap serve model_repository --model detect --model preprocess_rois`

- `endcap serve model_repository --log-file triton.log --http-port 0 --grpc-port 0 --metrics-port 0`

- `endcap serve model_repository --tritonserver /opt/tritonserver --host 0.0.0.0`

- `endcap serve model_repository --client-shared-memory`

- `endcap serve model_repository --model preprocess_dali --config-name dali`

- `endcap serve model_repository --trace-url http://127.0.0.1:4318/v1/traces --trace-every 100`
"""

_LOOK_AFTER_SERVER_EVERY_S = 0.2
_in_network = panel("Network")
_in_traces = panel("Traces")
_SETTINGS = {
    "models": typer.Option(
        "--model",
        help="Serve this model only, and an ensemble's steps with it; may be repeated. Models that "
        "a model calls by BLS have to be named, too.",
        metavar="NAME",
    ),
    "config_name": typer.Option(
        help="Use configs/NAME.pbtxt instead of config.pbtxt where a model has one; `dali` is for "
        "NVIDIA's DALI backend.",
        metavar="NAME",
    ),
    "tritonserver": (
        Path | None,
        typer.Option(
            help="Server to run: a program or an installation's folder. Default: that of "
            "ENDCAP_TRITONSERVER, of $PATH, of NVIDIA's container, of nvidia-pytriton, or endcap's "
            "own in its cache, ~/.cache/endcap/server (or below XDG_CACHE_HOME)."
        ),
    ),
    "host": _in_network(
        "Address to listen on; 0.0.0.0 opens it to the network. A server whose release is more "
        "than a year old needs --accept-old-server for other addresses than loopback."
    ),
    "accept_old_server": _in_network(
        "Open a server to the network although its release is more than a year old, or unknown. "
        f"NVIDIA's security bulletins: {BULLETINS}",
        "--accept-old-server",
    ),
    "log_file": (Path | None, typer.Option(help="File for a copy of the server's log.")),
    "ready_timeout_s": typer.Option(
        "--ready-timeout", min=0, metavar="SECONDS", help="Longest time for loading the models."
    ),
    "client_shared_memory": typer.Option(
        "--client-shared-memory",
        help="Let clients register shared memory, for `--shm` of `endcap infer` and `endcap "
        "load`. Such clients can read and write every region of /dev/shm that the server can "
        "open, and end the server by shortening a region's file.",
    ),
    "trace_url": _in_traces(
        "Send traces by OTLP over HTTP to this address, such as http://127.0.0.1:4318/v1/traces "
        "of an OpenTelemetry collector or Jaeger, for requests with a trace context.",
        metavar="URL",
    ),
    "trace_every": _in_traces(
        "Also trace one in N of all requests; 0: none but those with a trace context.",
        min=0,
        metavar="N",
    ),
}
_PORTS = {
    name: typer.Option(
        f"--{name}-port",
        min=0,
        max=65535,
        metavar="N",
        help=f"Port of {service}; 0 picks a free one.",
    )
    for name, service in {"http": "HTTP", "grpc": "gRPC", "metrics": "the metrics"}.items()
}


@command(settings=_SETTINGS, ports=_PORTS)
def serve(
    repository: Annotated[
        Path,
        typer.Argument(
            help="Folder of model folders, or an ONNX file, which is served as `endcap init` "
            "without options would write it.",
            metavar="REPOSITORY",
        ),
    ],
    settings: ServerSettings,
    ports: ServerPorts,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show all of the server's log, and tracebacks.")
    ] = False,
) -> None:
    """Run a Triton server with endcap's backends, until Ctrl-C or SIGTERM.

    Without an installed server, endcap's own is downloaded once, with the packages for Python
    models where there are any; to install it again, delete its folder. Prints the addresses
    when every model is ready, and the server's release with its date. Warnings and errors of
    the server are printed to standard error, and its last log lines when it ends by itself. A
    model whose config.pbtxt has the parameter `optional` is left out, with a message, where
    DALI or the Python that it needs is missing, unless --model names it.
    """
    settings = dataclasses.replace(settings, ports=ports, verbose=verbose, echo_problems=True)
    with (
        stopped_by_signals(exit_code=0),
        _model_folders(repository) as folder,
        TritonServer(folder, settings, progress=installing) as server,
    ):
        _announce(server)
        if server.left_out:
            say(f"endcap: {server.left_out}")
        while True:
            check_stop()
            server.check_alive()
            time.sleep(_LOOK_AFTER_SERVER_EVERY_S)


@contextlib.contextmanager
def _model_folders(path: Path) -> Iterator[Path]:
    """Yield a repository: the given one, or that of a network's file, which is gone afterwards."""
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="endcap-models-") as scratch:
        folder = Path(scratch, "models")
        command = f"`endcap init {shlex.quote(str(path))}`"
        try:
            plan = write_models(path, InitOptions(), folder)
        except EndcapError as error:
            raise RepositoryError(
                f"{error}; options are for {command}, then run `endcap serve {DEFAULT_OUTPUT}`"
            ) from error
        print_decisions(plan)
        say(f"endcap: the models are in a temporary folder; {command} writes them to keep")
        yield folder


def _announce(server: TritonServer) -> None:
    models = [model.name for model in server.models()]
    rows = [
        ("HTTP", server.http_url),
        ("gRPC", server.grpc_url),
        ("metrics", server.metrics_url),
        ("models", ", ".join(models)),
    ]
    if server.release is not None and server.installation is not None:
        problem = server.release.find_age_problem()
        age = f"; {problem}, see {BULLETINS}" if problem else ""
        rows.append(("server", f"{server.release}{age}"))
        rows.append(("", str(server.installation.executable)))
    model = next((name for name in ("detect", "classify", "segment") if name in models), None)
    if model is not None:
        named = "" if model == ClientArguments.model else f" --model {model}"
        usual = server.grpc_url == f"grpc://{ClientArguments.url}"
        at = "" if usual else f" --url {server.grpc_url.removeprefix('grpc://')}"
        rows.append(("try", f"endcap infer photo.jpg{named}{at}"))
    console = PlainConsole(highlight=False, soft_wrap=True)
    console.print("[bold green]Ready.[/] Ctrl-C stops the server.")
    console.print(Text("\n".join(f"{name:<9}{value}" for name, value in rows)))
