"""Options that several commands share, and commands whose options are the fields of dataclasses."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from endcap.cli.console import INTERRUPTED, report_errors, stopped_by_signals
from endcap.client import ClientArguments, ConnectionOptions, Tls
from endcap.client.options import Protocol, SharedMemory
from endcap.errors import InvalidArgumentError

# The port follows from the protocol.
DEFAULT_URL = "127.0.0.1"
_CLIENT = ClientArguments()


def panel(title: str) -> Callable[..., Any]:
    """Return a function that makes options of a panel of the help, of their text and settings."""
    return lambda text, *names, **settings: typer.Option(
        *names, help=text, rich_help_panel=title, **settings
    )


in_server = panel("Server")
in_connection = panel("Connection")
in_requests = panel("Requests")
in_frames = panel("Videos and tracks")
in_output = panel("Output")

_VERBOSE = typer.Option("--verbose", "-v", help="Show tracebacks.")
AsJson = Annotated[bool, in_output("Print JSON, not text.", "--json")]


@dataclass(frozen=True)
class ServerOptions:
    """The server, and how a client sends requests to it."""

    url: str = DEFAULT_URL
    protocol: Protocol | None = None
    timeout: float = _CLIENT.timeout_s
    batch: int = _CLIENT.batch
    shm: SharedMemory = "none"
    region_bytes: int | None = None
    header: tuple[str, ...] = ()
    tls_ca: Path | None = None

    def client_arguments(
        self, *, retries: int = ConnectionOptions.retries, **others: Any
    ) -> ClientArguments:
        """Return the arguments of a client, with those that the command has in addition."""
        return ClientArguments(
            self.url,
            protocol=self.protocol,
            batch=self.batch,
            shared_memory=self.shm,
            region_bytes=self.region_bytes,
            options=ConnectionOptions(
                timeout_s=self.timeout,
                retries=retries,
                headers=_read_pairs("--header", self.header, "NAME:VALUE", "X-Request-Id:7"),
                tls=Tls(ca=self.tls_ca) if self.tls_ca else None,
            ),
            **others,
        )


PROTOCOL = in_server("Protocol of requests. Default: that of --url, else grpc.")
MODEL = in_server("Name of the ensemble.")
TIMEOUT = in_server("Deadline of each image in seconds, with retries.", "--timeout")
CONCURRENCY = in_requests("Requests in flight at once.", min=1)
SERVER = {
    "url": in_server("HOST, HOST:PORT, or either after grpc://, grpcs://, http:// or https://."),
    "protocol": PROTOCOL,
    "timeout": TIMEOUT,
    "batch": in_requests("Images in one request.", min=1),
    "shm": in_requests(
        "Send tensors through memory shared with a server on this machine: system or GPU memory. "
        "The server has to allow it: `endcap serve --client-shared-memory`."
    ),
    "region_bytes": in_requests(
        "Bytes of shared memory of a request. Default: 8 MiB for each encoded image, and the size "
        "of the tensors.",
        min=1,
    ),
    "header": in_connection("Header of each request; may be repeated.", metavar="NAME:VALUE"),
    "tls_ca": in_connection("PEM file of certificate authorities; turns TLS on.", metavar="FILE"),
}


def command(**groups: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command with parameters of dataclasses: their fields are options.

    Types and defaults of options are those of the fields. The command has --verbose, too; its
    errors become messages and exit codes, and a signal ends it.

    Args:
        groups: For each such parameter the options of the fields that are offered, by name; where
            the command line has another type than the field, a pair of that type and the option.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(function).parameters.values():
            name, kind = parameter.name, hints[parameter.name]
            parameters += (
                [_option(kind, field, declared) for field, declared in groups[name].items()]
                if name in groups
                else [_keyword(name, kind, parameter.default)]
            )
        has_verbose = "verbose" in hints
        if not has_verbose:
            parameters.append(_keyword("verbose", Annotated[bool, _VERBOSE], False))

        @functools.wraps(function)
        def run(**values: Any) -> None:
            verbose = values["verbose"] if has_verbose else values.pop("verbose")
            with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
                for group, offered in groups.items():
                    given = {field: values.pop(field) for field in offered}
                    values[group] = hints[group](
                        **{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
                    )
                function(**values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _option(group: Any, name: str, declared: Any) -> inspect.Parameter:
    """Return the parameter for a field of a dataclass."""
    (field,) = (each for each in dataclasses.fields(group) if each.name == name)
    kind, default = get_type_hints(group)[name], field.default
    if isinstance(declared, tuple):
        kind, declared = declared
    elif get_origin(kind) is tuple:
        kind = list[get_args(kind)[0]]  # type: ignore[misc]
        default = list(default) if isinstance(default, tuple) else default
    if default is dataclasses.MISSING:
        default = inspect.Parameter.empty
    return _keyword(name, Annotated[kind, declared], default)


def read_settings(texts: Sequence[str]) -> dict[str, str]:
    """Return the parameters of `--set NAME=VALUE`.

    Raises:
        InvalidArgumentError: A text is not such a pair, or a name is given twice.
    """
    return _read_pairs("--set", texts, "NAME=VALUE", "upscale=false")


def _read_pairs(option: str, texts: Sequence[str], shape: str, example: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition("=" if "=" in shape else ":")
        name = name.strip()
        if not found or not name:
            raise InvalidArgumentError(f"{option} is '{text}'; give {shape}, such as {example}")
        if name.lower() in map(str.lower, pairs):
            raise InvalidArgumentError(f"{option} {name} is given twice; leave one out")
        pairs[name] = value.strip()
    return pairs
