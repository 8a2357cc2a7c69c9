"""The Triton server, and the libraries that it needs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile

from endcap.server.advisories import find_advisories, first_fixed, summarise
from endcap.server.locate import NoServerError, ServerInstallation
from endcap.server.private_server import why_no_private_server
from endcap.server.release import read_release
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.libraries import NO_LDD, find_ldd, missing_libraries
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError

HELP_WITHIN_S = 20.0  # for a program on a slow disk; it takes far less

SERVER = Topic(
    name="server",
    group=Group.SERVER,
    title="Triton server",
    meaning="The `tritonserver` that `endcap serve` would start: the one given with "
    "`--tritonserver` or ENDCAP_TRITONSERVER, on `PATH`, in NVIDIA's container, in an installed "
    "nvidia-pytriton, or endcap's own in its cache, in this order. The "
    "program tells its version only when it runs; shown is what the wheel or the container states.",
    problems={
        "not_installed": Problem(
            when="No server is found, and endcap's own is not installed yet.",
            severity=Severity.NOTE,
            remedy="`endcap server install` does it now; `endcap serve` does it at its first start",
        ),
        "absent": Problem(
            when="No server is found and the packaged one does not run here, the one given is "
            "none, or endcap's cache cannot be used.",
            severity=Severity.ERROR,
            remedy="name the server that you have with `--tritonserver PATH`, or follow the "
            "error message",
        ),
        "another": Problem(
            when="The program found is another than tritonserver, by what it says to `--help`.",
            severity=Severity.ERROR,
            remedy="name the tritonserver file, or the folder that holds bin/tritonserver: "
            "`--tritonserver PATH`",
        ),
    },
)

ADVISORIES = Topic(
    name="server_advisories",
    group=Group.SERVER,
    title="vulnerabilities",
    meaning="What NVIDIA's security bulletins say of the server's release, from a table in endcap: "
    "[](advisories.md). Some concern parts that an installation may lack.",
    problems={
        "affected": Problem(
            when="Bulletins name vulnerabilities of this release. `endcap serve` then refuses "
            "`--host` with another than a loopback address, unless "
            "`--accept-known-vulnerabilities` is given.",
            severity=Severity.NOTE,
            remedy="keep it on 127.0.0.1, or run release {fixed} or later of NVIDIA's container; "
            "`endcap doctor --verbose` lists the CVEs",
        ),
        "unknown": Problem(
            when="The release of the server is not known. `endcap serve` refuses the same.",
            severity=Severity.NOTE,
            remedy="keep it on 127.0.0.1, or write its version, such as 2.71.0, to {file}",
        ),
    },
)

LIBRARIES = Topic(
    name="server_libraries",
    group=Group.SERVER,
    title="server libraries",
    meaning="The loader finds every shared library that the server needs, in the environment that "
    "`endcap serve` gives it.",
    problems={
        "missing": Problem(
            when="A library is not found.",
            severity=Severity.ERROR,
            remedy="of the wheel: `pip install --force-reinstall --no-deps nvidia-pytriton`; of "
            "endcap's own: `endcap server remove`, then `endcap server install`; of another "
            "server: install the library, or put its folder on LD_LIBRARY_PATH",
        ),
    },
)


def check_server(subject: Subject) -> Finding:
    """Where the server is, and which one."""
    if isinstance(subject.located, NoServerError):
        problem = why_no_private_server()
        if problem is not None:
            return SERVER.problem("absent", "none", problem)
        return SERVER.problem("not_installed", "none yet", reason_of(subject.located))
    if isinstance(subject.located, ServerError):
        return SERVER.problem("absent", "none", reason_of(subject.located))
    server = subject.located
    objection = _objection(server)
    if objection is not None:
        message = f"{server.executable} is not tritonserver: {objection}"
        return SERVER.problem("another", str(server.executable), message)
    return SERVER.fine(f"{read_release(server)} ({server.origin}: {server.executable})")


def check_advisories(subject: Subject) -> Finding:
    """What is known of the server's release."""
    if subject.installation is None:
        return ADVISORIES.not_looked_at("there is no server")
    server = read_release(subject.installation)
    if server.release is None:
        file = subject.installation.executable.parent.parent / "TRITON_VERSION"
        message = f"whether {server} has known vulnerabilities cannot be told"
        return ADVISORIES.problem("unknown", "unknown", message, file=file)
    advisories = find_advisories(server.release)
    if not advisories:
        return ADVISORIES.fine(summarise(advisories))
    return ADVISORIES.problem(
        "affected",
        f"{sum(len(each.cves) for each in advisories)}, all fixed in {first_fixed(advisories)}",
        f"{server} has {summarise(advisories)}",
        details=map(str, advisories),
        fixed=first_fixed(advisories),
    )


def check_libraries(subject: Subject) -> Finding:
    """What the server is linked to."""
    if subject.installation is None:
        return LIBRARIES.not_looked_at("there is no server")
    if find_ldd() is None:
        return LIBRARIES.not_looked_at(NO_LDD)
    try:
        with subject.environment() as environment:
            missing = missing_libraries(subject.installation.executable, environment)
    except ServerError as error:  # about Python-backend models, which have a check of their own
        return LIBRARIES.not_looked_at(reason_of(error))
    if missing:
        return LIBRARIES.problem(
            "missing",
            "incomplete",
            f"{subject.installation.executable} needs {', '.join(missing)}, which the loader does "
            "not find",
        )
    return LIBRARIES.fine("all found")


def _objection(server: ServerInstallation) -> str | None:
    """Why this is no tritonserver, None where it is one or a library keeps it from running."""
    folders = filter(None, [server.library_dir, os.environ.get("LD_LIBRARY_PATH")])
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}
    with tempfile.TemporaryFile() as output:  # a pipe would also wait for what the program started
        try:
            process = subprocess.Popen(
                [str(server.executable), "--help"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return error.strerror
        try:
            process.wait(HELP_WITHIN_S)
        except subprocess.TimeoutExpired:
            return f"it says nothing to --help for {HELP_WITHIN_S:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        said = output.read()
    if b"--model-repository" in said or b"while loading shared libraries" in said:
        return None
    return "its --help does not name --model-repository"
