"""Writes docs/errors.md: error types, status codes, protocol codes and exit codes, with remedies.

python scripts/errors_page.py > docs/errors.md

Codes and classes are read from the package; messages are those that it gives for the calls below.
Causes and remedies stand here and nowhere else.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

import endcap
from endcap.cli.app import app
from endcap.client import errors as client_errors
from endcap.errors import EndcapError, Status, error_for_status
from endcap.python_backend.failures import code_name
from endcap.terminal import failure

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pyext" / "endcap"
SAMPLE = ROOT / "model_repository" / "detect" / "samples" / "shapes_320x240.jpg"

INTRODUCTION = """\
# Errors

Made from the code by `python scripts/errors_page.py > docs/errors.md`; a test compares.

This page lists what each error means and what to do. Search it for the words of a message; names
and numbers are those of an example. Messages of servers and installations are in
[Troubleshooting](troubleshooting.md#symptoms).
"""

CLASSES_INTRODUCTION = """\
## Failure classes

Every error of an image, a tensor or a parameter is of one of these. The number is that of the
output `status` on a server and of `status` of the exception in Python; C++ and the C functions
have the same. All classes derive from `EndcapError`, and also from the builtin of the column
*also*. On a server the message begins with the name, as in `corrupt_image: the image is empty (0
bytes)`.
"""
CLASSES_NOTES = """\
After some CUDA errors the process cannot use its GPU any more: the server then says UNAVAILABLE
until it is restarted. With `on_error: blank` a bad image is no error; its `status` is the number.
"""
CLIENT_INTRODUCTION = """\
## Statuses of a client

`status` of an `ImageResult` and of `endcap infer --json`, and `status_name` of a `RequestError`, is
a name of the table above or one of these. One image that fails does not concern the others.
"""
OTHER_INTRODUCTION = """\
## Other classes

Commands print the message and end with exit code 2. In Python all derive from `EndcapError`.
"""
SIGNALS = """\
A server that a signal ended is another matter: [Symptoms](troubleshooting.md#symptoms) has SIGSEGV,
SIGFPE and SIGABRT.
"""


class Case(NamedTuple):
    """A message with its cause and remedy.

    Attributes:
        raises: What raises it, or the text itself where that takes a GPU or a defect.
        remedy: What to do; the message itself says what is allowed.
    """

    raises: Callable[[], object] | str
    cause: str
    remedy: str


def sample() -> bytes:
    """Return a JPEG of 320x240 pixels."""
    return SAMPLE.read_bytes()


def read_head(head: Any) -> object:
    """Give a head to a postprocessor of 80 classes."""
    return endcap.Postprocessor("yolov8", num_classes=80)(head)


CASES: dict[Status, list[Case]] = {
    Status.CORRUPT_IMAGE: [
        Case(
            lambda: endcap.decode(b"this is no JPEG"),
            "Base64 text, a path, JSON or pixels were sent in place of a file.",
            "Send the bytes of the file as they are; give an array of pixels as an array.",
        ),
        Case(
            lambda: endcap.decode(b""),
            "The file is empty, or has been read to its end before.",
            "Look at the sender: `file.seek(0)`, a finished upload.",
        ),
        Case(
            lambda: endcap.decode(sample()[:5000]),
            "The transfer or the writing of the file broke off.",
            "Send the whole file. `truncated: accept` decodes what is there, `damaged: accept` "
            "also a file with damage amid its data ([Truncated files](concepts.md#truncated)).",
        ),
        Case(
            lambda: endcap.decode(sample()[:100]),
            "The header is cut.",
            "Send the whole file; `truncated: accept` does not help.",
        ),
    ],
    Status.IMAGE_LIMIT: [
        Case(
            lambda: endcap.preprocess(sample(), max_pixels=50_000),
            "The header claims more pixels than the model takes. Nothing was decoded.",
            "A smaller image, or a larger `max_pixels`; each of the "
            "[limits](security.md#limits-of-inputs) is a parameter of its name.",
        ),
        Case(
            lambda: endcap.preprocess(sample(), max_bytes=1_000),
            "The file is longer than the model takes.",
            "A smaller file, or a larger `max_bytes`.",
        ),
    ],
    Status.UNSUPPORTED: [
        Case(
            lambda: endcap.decode(b"II*\0" + bytes(100)),
            "A file of a kind that endcap does not read.",
            "Convert it: [Image formats](formats.md#other-files).",
        ),
        Case(
            lambda: endcap.decode(b"GIF89a" + bytes(100)),
            "A format that is off by default, or that `formats` excludes.",
            "`formats: jpeg,png,webp,y4m,gif`.",
        ),
    ],
    Status.INVALID_ARGUMENT: [
        Case(
            lambda: endcap.Preprocessor(fit="crop"),
            "A value that the parameter cannot have.",
            "One of the values that the message lists: [Parameters](parameters.md).",
        ),
        Case(
            lambda: endcap.Preprocessor(size=(640, -1)),
            "A number out of its range.",
            "[Parameters](parameters.md) has the ranges.",
        ),
        Case(
            lambda: read_head(np.zeros((1, 10, 8400), np.float32)),
            "`head` or `num_classes` is not this network's; here it has 6 classes, not 80.",
            "[Heads](heads.md) has the shapes; `endcap init` reads them from the network.",
        ),
        Case(
            lambda: read_head(np.full((1, 84, 8400), np.nan, np.float32)),
            "The network gave NaN: half precision that overflowed, or inputs of another scale.",
            "Look at the tensor `images` and the preset; export in float32. If few are NaN: "
            '`on_nan="drop"`.',
        ),
        Case(
            lambda: read_head(np.zeros((1, 84, 8400))),
            "An array of another type.",
            "`head.astype(np.float32)`.",
        ),
    ],
    Status.CUDA: [
        Case(
            "there is no NVIDIA driver on this machine",
            '`device="cuda"`, or an instance of KIND_GPU, without a GPU.',
            'In a container `docker run --gpus all`; else `device="cpu"`, KIND_CPU.',
        ),
        Case(
            "; install driver 580 or later",
            "The driver is too old for CUDA 13.",
            "A newer driver: [What it needs](cuda.md#what-it-needs).",
        ),
        Case(
            "this build of endcap has no GPU code",
            "`libendcap_cuda.so` is not beside the backend.",
            "[Where the library is looked for](cuda.md#where-the-library-is-looked-for).",
        ),
    ],
    Status.OUT_OF_MEMORY: [
        Case(
            "out of memory",
            "The host or the GPU has too little memory for this request.",
            "Lower `max_pixels`, `max_batch_size` or the number of instances. Clients may repeat "
            "the request.",
        ),
    ],
    Status.INTERNAL: [],
}
NO_CASES = {
    Status.INTERNAL: "A defect of endcap, of the server, or of a model in Python. Report it with "
    "the message, the server's log and `endcap doctor --json`."
}
# Triton's code -> gRPC's status, HTTP's status.
PROTOCOL_CODES = {
    "INVALID_ARG": ("INVALID_ARGUMENT", 400),
    "UNAVAILABLE": ("UNAVAILABLE", 503),
    "INTERNAL": ("INTERNAL", 500),
}
# Statuses of a client's results that are no failure class of the core: cause, remedy.
CLIENT_STATUSES = {
    "unreadable": (
        "The file or address cannot be read by the client. Nothing was sent.",
        "Look at the path and its permissions.",
    ),
    "unavailable": (
        "No server responds, it stops, its queue is full or too long, or the model is not loaded.",
        "`endcap serve`; `--url`; the client has repeated what may be repeated (`--retries`).",
    ),
    "timeout": (
        "No response within the deadline.",
        "`--timeout`, less `--concurrency`, or more instances.",
    ),
    "cancelled": (
        "The client, or a proxy, has given the request up.",
        "Nothing, or a longer deadline there.",
    ),
}
# Module, class, remedy. Their docstrings say when they are raised.
OTHER_CLASSES = [
    ("client", "ClientError", "`endcap serve`, `--url`, `--model`: as the message says."),
    ("client", "RequestError", "Its `status_name` is [a status](#statuses-of-a-client)."),
    ("client.errors", "ResponseTooLargeError", "Smaller batches, or fewer outputs."),
    (
        "triton.errors",
        "ServerError",
        "As the message says; `endcap doctor --start` looks for more.",
    ),
    ("triton.model_config", "ModelConfigError", "Correct the file: `endcap validate`."),
    ("server.locate", "NoServerError", "`endcap server install`, or `--tritonserver PATH`."),
    ("repository.errors", "RepositoryError", "The option that the message names: [](init.md)."),
    ("evaluation.errors", "EvaluationError", "As the message says: [](evaluate.md)."),
    ("environment.errors", "ExecutionEnvironmentError", "As it says: [](environments.md)."),
    ("environment.errors", "StubError", "As the message says: [](python_models.md)."),
    ("dali.installation", "DaliError", "`endcap dali info`: [](dali.md)."),
    ("errors", "VideoError", "As the message says: [](video.md)."),
    ("batch.errors", "BatchError", "As the message says: [](data_sets.md)."),
    ("tools.web", "PageError", "As the message says, for example another port."),
    ("_system.python_process", "PipError", "pip's own message follows: network, index, disk."),
]
# Errors that stay inside of the package, or reach users as one of the above.
INTERNAL_CLASSES = {
    "AmbiguousHeadError",
    "BusySequenceError",
    "LostFileError",
    "MissingOptionError",
    "ModelCallError",
    "RequestCancelledError",
    "TooManySequencesError",
    "UnknownOperatorError",
}
EXIT_CODES = [
    (0, "All went well.", "Nothing."),
    (
        failure.SOME_IMAGE_FAILED,
        "The command ran; an image failed, a check found something, or a bound was exceeded.",
        "The messages above, and `status` and `error` of `--json`.",
    ),
    (
        failure.CANNOT_RUN,
        "The command could not run: wrong arguments, no server, a file that cannot be used.",
        "The message on standard error says what to do.",
    ),
    (
        failure.INTERNAL_ERROR,
        "A defect of endcap.",
        "Run it again with `--verbose`, and report what that shows.",
    ),
    (
        failure.INTERRUPTED,
        "Ctrl-C, SIGTERM or SIGHUP. Results until then are printed. `endcap serve`, `top` and "
        "`demo --web`, which run until then, end with 0.",
        "Nothing.",
    ),
    (failure.READER_GONE, "The reader of the output closed it, as `head` does.", "Nothing."),
]


def message(case: Case) -> str:
    """Return the message of a case, for a table.

    Raises:
        LookupError: The library has another message, or none.
    """
    if isinstance(case.raises, str):
        sources = sorted((ROOT / "csrc").rglob("*.cc"))
        if not any(case.raises in source.read_text(encoding="utf-8") for source in sources):
            raise LookupError(f"no source of csrc/ has the message {case.raises!r}")
        return case.raises.removeprefix("; ")
    try:
        case.raises()
    except EndcapError as error:
        return str(error)
    raise LookupError(f"no error is raised for: {case.cause}")


def escape(text: str) -> str:
    """Return text for a cell of a table."""
    return text.replace("|", "\\|")


def code(text: object) -> str:
    """Return text as code in a cell of a table."""
    text = escape(str(text))
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def builtin_base(cls: type[BaseException]) -> str:
    """Return the builtin exception that a class is caught as, the nearest one."""
    general = {Exception, BaseException, object}
    found = [base for base in cls.__mro__ if base.__module__ == "builtins" and base not in general]
    return code((found or [Exception])[0].__name__)


def status_table() -> str:
    """Return the failure classes with their codes everywhere."""
    rows = []
    for status in Status:
        if status is Status.OK:
            rows.append(["0", "`ok`", "", "", "", "", ""])
            continue
        error = error_for_status(status, "")
        triton = code_name(error)
        grpc, http = PROTOCOL_CODES[triton]
        name, also = type(error).__name__, builtin_base(type(error))
        rows.append(
            [
                str(int(status)),
                *map(code, (status.label, name)),
                also,
                code(triton),
                code(grpc),
                str(http),
            ]
        )
    return table(["`status`", "name", "Python", "also", "Triton", "gRPC", "HTTP"], rows)


def status_sections() -> Iterator[str]:
    """Yield a section for each failure class, with messages, causes and remedies."""
    for status in list(Status)[1:]:
        error = type(error_for_status(status, ""))
        meaning = inspect.getdoc(error) if error is not EndcapError else None
        text = f"### {status.label}\n\n{' '.join((meaning or '').split())}".rstrip()
        text = re.sub(r"``", "`", text)
        if status in NO_CASES:
            yield f"{text}\n\n{NO_CASES[status]}"
            continue
        rows = [
            [code(message(each)), escape(each.cause), escape(each.remedy)] for each in CASES[status]
        ]
        yield f"{text}\n\n{table(['message', 'cause', 'what to do'], rows)}"


def client_table() -> str:
    """Return the statuses that only clients give, with the protocol codes that lead to them."""
    known = {status.label for status in Status}
    codes: dict[str, list[str]] = {name: [] for name in CLIENT_STATUSES}
    for grpc, name in client_errors._GRPC_STATUS.items():
        if name not in known:
            codes[name].append(f"gRPC {grpc}")
    for http, name in client_errors._HTTP_STATUS.items():
        if name not in known:
            codes[name].append(f"HTTP {http}")
    rows = [[code(n), c, ", ".join(codes[n]), r] for n, (c, r) in CLIENT_STATUSES.items()]
    return table(["`status`", "cause", "from", "what to do"], rows)


def class_table() -> str:
    """Return the error classes beside those of a status, with when they are raised.

    Raises:
        LookupError: The package has a class of errors that this page does not know.
    """
    check_classes()
    rows = []
    for module, name, remedy in OTHER_CLASSES:
        cls = getattr(importlib.import_module(f"endcap.{module}"), name)
        meaning = (inspect.getdoc(cls) or "").split("\n\n")[0]
        rows.append([code(name), builtin_base(cls), escape(" ".join(meaning.split())), remedy])
    return table(["class", "also", "when", "what to do"], rows)


def check_classes() -> None:
    """Raise LookupError where the sources define a class of errors without a row."""
    described = {name for _, name, _ in OTHER_CLASSES} | INTERNAL_CLASSES | {"EndcapError"}
    described |= {type(error_for_status(status, "")).__name__ for status in list(Status)[1:]}
    for source in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            name = node.name if isinstance(node, ast.ClassDef) else "_"
            if name.endswith("Error") and not name.startswith("_") and name not in described:
                raise LookupError(f"{source}: {name} has no row in scripts/errors_page.py")


def exit_code_table() -> str:
    """Return the exit codes of all commands."""
    rows = [[str(number), meaning, remedy] for number, meaning, remedy in EXIT_CODES]
    return table(["code", "meaning", "what to do"], rows)


def command_table() -> str:
    """Return what each command says of its exit codes; the others have those of all."""
    rows = []
    for name, command in commands(typer.main.get_command(app)):
        text = " ".join((command.epilog or "").split())
        _, found, rest = text.partition("**Exit code**: ")
        if found:
            rows.append(
                [f"[`endcap {name}`](cli.md#endcap-{name.replace(' ', '-')})", escape(rest)]
            )
    return table(["command", "exit code"], rows)


def commands(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield the commands of the program with the words that call them."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {rest}", each) for rest, each in commands(command))
        else:
            yield name, command


def main() -> None:
    """Print the page."""
    parts = [
        INTRODUCTION,
        CLASSES_INTRODUCTION,
        status_table(),
        CLASSES_NOTES,
        *status_sections(),
        CLIENT_INTRODUCTION,
        client_table(),
        OTHER_INTRODUCTION,
        class_table(),
        "## Exit codes",
        exit_code_table(),
        "What a command means by them:",
        command_table(),
        SIGNALS,
    ]
    print("\n\n".join(part.strip() for part in parts))


if __name__ == "__main__":
    main()
