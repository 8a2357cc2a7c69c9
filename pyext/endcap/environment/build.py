"""From wishes to an archive that was tried out."""

from __future__ import annotations

from pathlib import Path

from endcap._system.stages import Stages, silent
from endcap.environment.checking import CheckedEnvironment, check_archive, check_numpy
from endcap.environment.conda_process import install_conda_packages
from endcap.environment.errors import ExecutionEnvironmentError
from endcap.environment.numpy_limit import NumpyLimit
from endcap.environment.options import PackOptions
from endcap.environment.origins import forget_origins, without_secrets
from endcap.environment.packing import pack
from endcap.environment.pip_packages import install_pip_packages


def build_archive(
    options: PackOptions, archive: Path, *, limit: NumpyLimit, stages: Stages = silent
) -> CheckedEnvironment:
    """Solve, installs, packs and tries out an environment; return what it holds.

    Args:
        archive: The file to write. Its folder is for what is made on the way, which stays there.
            Raises InvalidArgumentError, ExecutionEnvironmentError and OSError.
    """
    scratch = archive.parent
    prefix = scratch / "environment"
    names = install_conda_packages(options, limit, prefix, stages)
    _check_python(prefix, options)
    stages("Installing with pip", None)
    install_pip_packages(options, prefix)
    forget_origins(prefix)
    pack(
        prefix,
        archive,
        python=options.python,
        compress_level=options.compress_level,
        stages=stages,
    )
    wanted = ["endcap", *names, *_pip_names(options)]
    shown = Path(archive.name)
    checked = check_archive(archive, scratch, shown=shown, wanted=wanted, stages=stages)
    check_numpy(checked, limit, shown)
    return checked


def _check_python(prefix: Path, options: PackOptions) -> None:
    if not (prefix / "bin" / "python3").is_file():
        channels = without_secrets(", ".join(options.channels))
        raise ExecutionEnvironmentError(
            f"the package python of {channels} has no bin/python3, which "
            "Triton's stub takes its packages from; take Python from another --channel"
        )


def _pip_names(options: PackOptions) -> list[str]:
    """The names that tell themselves: an address without a name does not."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

    names = []
    for text in options.pip_packages:
        try:
            if text.endswith(".whl"):
                names.append(str(parse_wheel_filename(Path(text).name)[0]))
            else:
                names.append(str(canonicalize_name(Requirement(text).name)))
        except (InvalidRequirement, InvalidWheelFilename):
            continue
    return names
