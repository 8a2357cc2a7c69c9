"""Writes docs/troubleshooting.md: the checks of `endcap doctor` from their texts, and symptoms.

python scripts/doctor_page.py > docs/troubleshooting.md
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable

from endcap.tools.doctor.catalogue import BROKEN, TOPICS
from endcap.tools.doctor.finding import PipCommand, Problem, Topic

INTRODUCTION = """\
# Troubleshooting

<!-- Made by `python scripts/doctor_page.py > docs/troubleshooting.md`; a test compares. -->

    endcap doctor

checks the installation, the server, the model repository and the machine, and prints each
`warning` (works with restrictions) and `error` (serving fails, or gives wrong results) with the
command that solves it below. With `--verbose` it prints what is `ok`, and each `note` (something
optional is missing), too. It changes nothing.

    endcap doctor --repository my_models     # your models instead of the shipped ones
    endcap doctor --start                    # start the server and send it an image
    endcap doctor --verbose                  # all that was checked
    endcap doctor --json                     # for programs: a list of findings

The exit code is 0 when all is well (notes included), 1 for warnings and 2 for errors.
"""

SYMPTOMS_INTRODUCTION = """\
## Symptoms

The first column quotes the error message, where there is one. Messages about images, tensors and
parameters, and exit codes, are in [Errors](errors.md).
"""

# Symptom, cause, remedy.
SYMPTOMS = [
    (
        "`endcap: command not found`",
        "The environment in which endcap is installed is not active.",
        "`. .venv/bin/activate`, or call `.venv/bin/endcap`",
    ),
    (
        "`ImportError: libendcap_jpeg.so: cannot open shared object file`",
        "The installation is incomplete: a library beside the compiled core is missing. "
        "Not even `endcap doctor` can start then.",
        "`pip install --force-reinstall --no-deps WHEEL`",
    ),
    (
        "`is not safe: ... lets other users replace what lies in it`",
        "Who may write to a folder above endcap's temporary folder or cache could put programs of "
        "theirs there.",
        "`chmod +t` or `chmod go-w` on the folder that the message names, another `TMPDIR` or "
        "`XDG_CACHE_HOME`; for TMPDIR `ENDCAP_TRUST_TMPDIR=1` where there are no other users",
    ),
    (
        "`it has no end marker`",
        "The JPEG was cut and padded, or its writer omits the end marker and pads.",
        "store the file with its own length, or set `truncated: accept`",
    ),
    (
        "`is not done with its trial run after 120 seconds`, `takes more than 8 GiB of memory in "
        "its trial run`",
        "`endcap init` runs a network with limits.",
        "`--trial-timeout`, `--trial-memory`, or export for a smaller size",
    ),
    (
        "`no Triton server responds at`",
        "No server runs there, or it listens on its own machine only, which is the default.",
        "`endcap serve REPOSITORY --host 0.0.0.0`, and the address with `--url`; in Docker also "
        "`docker run -p 8000-8002:8000-8002`",
    ),
    (
        "`this looks like the HTTP port`",
        "The address has no scheme and so is taken for gRPC, whose default port is 8001.",
        "`--url http://HOST:8000`, or the gRPC port",
    ),
    (
        "`is no loopback address, and ... known vulnerabilities`",
        "The server's release has [known vulnerabilities](advisories.md), and `--host` would open "
        "it to other machines.",
        "NVIDIA's [current container](triton.md#in-nvidias-container); a proxy before 127.0.0.1; "
        "or `--accept-known-vulnerabilities`",
    ),
    (
        "`unable to find backend library for backend`",
        "The server does not have the backend that the model names.",
        "see [model backends](#model-backends)",
    ),
    (
        "`at least one version must be available`",
        "A model has no version folder.",
        "`mkdir REPOSITORY/MODEL/1`",
    ),
    (
        "`ModuleNotFoundError`, from a model",
        "Stubs for Python 3.11 and later do not read PYTHONPATH: the module must be installed.",
        "`pip install` it in the environment of endcap; see [model imports](#model-imports)",
    ),
    (
        "`Failed to increase the shared memory pool size`",
        "/dev/shm is full; Docker gives a container 64 MiB.",
        "`docker run --shm-size=1g`; see [shared memory](#shared-memory)",
    ),
    (
        "`tritonserver ended with signal SIGSEGV`",
        "A fault of the server. In release 24.10, which the wheel has, gRPC requests that clients "
        "give up can do it, streams to ordinary models beside a decoupled one, and an HTTP request "
        "whose JSON nests some 200,000 brackets.",
        "longer deadlines, or HTTP; a server of their own for decoupled models; "
        "[keep strangers away from it](#requests-that-end-a-server)",
    ),
    (
        "`tritonserver ended with signal SIGFPE`",
        "A fault of servers before July 2025: a request with `class_count`, Triton's "
        "classification extension, for an output of type BYTES such as `class_labels`.",
        "ask it of `class_probabilities` only; see [that section](#requests-that-end-a-server)",
    ),
    (
        "`tritonserver ended with signal SIGABRT`",
        "An uncaught exception; its text follows. Release 24.10 has been seen "
        "to abort where a Python model's process was stopped for about 8 seconds, as by a "
        "debugger.",
        "where a limit is named, raise it; do not stop processes of models",
    ),
    (
        "`tritonserver ended with signal SIGBUS`",
        "/dev/shm is full; or, with `--client-shared-memory`, a client shortened the file of a "
        "region that it had registered.",
        "`docker run --shm-size=1g`; allow shared memory only to clients that you trust",
    ),
    (
        "`RLIMIT_NOFILE allows only`, or another limit",
        "The shell or the service manager limits what a process may have, and it is too little "
        "for the server.",
        "the command in the message; for a service of systemd `LimitNOFILE=65536`",
    ),
    (
        "`This API is restricted`, `This protocol is restricted`",
        "`endcap serve` closes model control, trace, logging and clients' shared memory.",
        "for `--shm`: `endcap serve --client-shared-memory`; for the rest run `tritonserver` "
        "yourself",
    ),
    (
        "`is open to other users`, or `belongs to user`, of a folder `endcap-UID`",
        "Temporary folders lie in one folder in TMPDIR, which has to be its user's alone.",
        "look at what it holds, and move it away; or set TMPDIR to a folder of your own",
    ),
    (
        "A Python model returns empty tensors, without an error",
        "NumPy 2 in the environment of the wheel's server.",
        "`pip install 'numpy<2'`",
    ),
    (
        "`corrupt_image: the data is not an image`",
        "What was sent is not the content of an image file, but a path or pixels.",
        "send the bytes of the file, or base64 text of them",
    ),
    (
        "No detections",
        "The scores are below `score_threshold`, or `head` and `num_classes` do not describe this "
        "network.",
        "set them in the `config.pbtxt` of postprocess; see [parameters](parameters.md)",
    ),
    (
        "Boxes in the wrong place, or of the wrong size",
        "`geometry` does not come from the preprocess step that made the tensor, or the preset is "
        "not the network's.",
        "connect `geometry` in the ensemble; choose the preset of the library that trained the "
        "network",
    ),
    (
        "`Got invalid dimensions for input`, and `Expected: 1`, when several images come at once",
        "The network was exported for a batch of 1.",
        "export it with a free batch dimension, or `max_batch_size: 1` in the network's "
        "`config.pbtxt` and in the ensemble's",
    ),
    (
        "`inconsistent shape`, or `unexpected shape`, of `head`",
        "`num_classes` or `head` in the `config.pbtxt` of postprocess does not describe this "
        "network, or `dims` of the network are not its own.",
        "a YOLOv8 head is [4 + `num_classes`, anchors]; see [heads](heads.md)",
    ),
    (
        "Lines about pinned memory, NVML, `CudaDriverHelper` and streams at the start",
        "The server looks for a GPU and finds none.",
        "nothing: they are harmless",
    ),
    (
        "Lines of nvImageCodec, some of them red: `[ERROR] [nvjpeg-ext] Failed to load nvJPEG "
        "library`",
        "A DALI pipeline decodes by DALI itself, which looks for libraries of the GPU and finds "
        "none.",
        "nothing where it runs on a CPU: they are harmless",
    ),
]

FAULTS = """\
## Requests that end a server

Four kinds of requests are known to end servers of release 24.10, that of the wheel, and need no
right but to reach a port: JSON that nests some 200,000 brackets, over HTTP (SIGSEGV); `class_count`
for an output of type BYTES, over HTTP or gRPC (SIGFPE; mended in July 2025); and, now and then,
requests over gRPC whose client gives them up (SIGSEGV; mended in part in December 2024) and gRPC
streams to ordinary models beside a decoupled one (SIGSEGV). `endcap serve` says so when its server
ends that way. It listens on this machine only unless `--host` says otherwise; even then every page
in a browser of this machine can send the first. Where others than your own programs reach the
ports, run a current release from NVIDIA's container (`--tritonserver`), whose security bulletins
tell which faults it has no more, and let something start the server again when it ends: a service
manager with a probe of `/v2/health/live`.

endcap puts no filter in front of the server. It would have to inspect the middle of large
messages: tried with HAProxy 2.6, the `ungrpc` converter sees the first of the outputs of a gRPC
request only, and nothing behind the 64 KiB of its buffer, where a client may put the outputs. A
proxy that reads whole messages as Triton does would be a second front end to keep.
"""


class _Named(dict[str, object]):
    """Fills a remedy's fields with their own names, in capitals."""

    def __missing__(self, key: str) -> str:
        return key.upper()


def remedy(problem: Problem) -> str:
    """Return the remedy, with capitals in the place of values."""
    commands = {
        "install": PipCommand(_install_wheel),
        "install_elsewhere": PipCommand(_install_wheel),
        "reinstall": PipCommand(lambda: "pip install --force-reinstall --no-deps WHEEL"),
    }
    return string.Formatter().vformat(problem.remedy, (), _Named(commands))


def _install_wheel(extra: str = "", *options: str) -> str:
    wheel = f"'WHEEL[{extra}]'" if extra else "WHEEL"
    return " ".join(["pip install", *options, wheel])


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def check(topic: Topic) -> str:
    """Return the section of a check, with the problems that it can report."""
    text = f"### {topic.title}\n\n`{topic.name}`. {topic.meaning}"
    if not topic.problems:
        return text
    rows = ([p.severity.value, p.when, remedy(p)] for p in topic.problems.values())
    return f"{text}\n\n{table(['severity', 'when', 'what to do'], rows)}"


def main() -> None:
    """Print the page."""
    parts = [
        INTRODUCTION,
        SYMPTOMS_INTRODUCTION,
        table(["symptom", "cause", "remedy"], SYMPTOMS),
        FAULTS,
        "## Checks\n\nThe name in front is that of the finding in `--json`. Words in capitals "
        "are filled in; WHEEL is the wheel that endcap was installed from: where pip does not know "
        "it, or it is gone, the packages of an extra are named instead. Without Python models in "
        "the repository, problems that concern only them are notes.",
    ]
    for group, topics in itertools.groupby(TOPICS, lambda topic: topic.group):
        parts += [f"## {group.value}", *map(check, topics)]
    parts.append(
        f"## A check that fails\n\n{BROKEN.when} The others go on. What to do: {BROKEN.remedy}."
    )
    print("\n\n".join(part.strip() for part in parts))


if __name__ == "__main__":
    main()
