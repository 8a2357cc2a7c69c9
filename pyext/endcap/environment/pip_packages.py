"""Installs what conda has not: endcap, and what is asked for from pip."""

from __future__ import annotations

import subprocess
from pathlib import Path

from endcap._system.pip import PipError, environment_for_pip, pip_command, pip_errors
from endcap.environment.errors import ExecutionEnvironmentError
from endcap.environment.options import PackOptions
from endcap.environment.site_packages import distributions


def install_pip_packages(options: PackOptions, prefix: Path) -> None:
    """Run the pip of the Python that runs endcap for the one in `prefix`, which needs none then.

    Raises ExecutionEnvironmentError with what pip complains of.
    """
    # pip never replaces what is there from conda, NumPy above all.
    constraints = prefix.with_name("constraints.txt")
    lines = [f"{name}=={version}\n" for name, version in distributions(prefix)]
    constraints.write_text("".join(lines), encoding="utf-8")
    try:
        pip, environment = pip_command(), environment_for_pip()
    except PipError as error:
        raise ExecutionEnvironmentError(str(error)) from error
    command = [
        *pip, "--python", str(prefix / "bin" / "python3"),
        "install", "--no-input", "--disable-pip-version-check", "--no-warn-script-location",
        "--quiet", "--constraint", str(constraints), *_sources(options), *options.pip_requirements,
    ]  # fmt: skip
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise ExecutionEnvironmentError(_pip_failure(finished.stderr, options))


def _sources(options: PackOptions) -> list[str]:
    sources = ["--no-index"] if options.offline else []
    for folder in options.find_links:
        sources += ["--find-links", str(folder)]
    return sources


def _pip_failure(stderr: str, options: PackOptions) -> str:
    advice = "check what --pip asks for, and give the wheel by --endcap where it is endcap"
    if options.offline:
        advice += ", and put the wheels into a folder of --find-links"
    reason = pip_errors(stderr)
    return f"pip could not install {', '.join(options.pip_requirements)}: {reason}; {advice}"
