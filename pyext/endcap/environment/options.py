"""What is to be in an environment, and from where; checked before anything is downloaded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from endcap.environment.errors import ExecutionEnvironmentError
from endcap.errors import InvalidArgumentError

DEFAULT_CHANNEL = "conda-forge"


@dataclass(frozen=True, kw_only=True)
class PackOptions:
    """The wishes of `endcap env pack`.

    Attributes:
        python: Major and minor version of the environment's Python, such as "3.11".
        packages: Conda specifications, such as "scipy >=1.10".
        pip_packages: Requirements for pip, or paths of wheels.
        endcap: A wheel of endcap, or the version that pip is to find.
        channels: Names, URLs or folders, the first one before the others.
        find_links: Folders of wheels in which pip looks as well.
        offline: Nothing but folders is asked.
        compress_level: 0 (as large as it is) to 9 (slowest).
    """

    python: str
    packages: tuple[str, ...] = ()
    pip_packages: tuple[str, ...] = ()
    endcap: str
    channels: tuple[str, ...] = (DEFAULT_CHANNEL,)
    find_links: tuple[Path, ...] = ()
    offline: bool = False
    compress_level: int = field(default=4)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"3\.\d+", self.python):
            raise InvalidArgumentError(
                f"--python is '{self.python}'; give major and minor version, such as 3.11"
            )
        if self.wheel is not None:
            _check_wheel(self.wheel, self.python)

    @property
    def wheel(self) -> Path | None:
        """The wheel of endcap, None where pip is to find one."""
        return Path(self.endcap) if self.endcap.endswith(".whl") else None

    @property
    def pip_requirements(self) -> list[str]:
        """All that pip installs, ours first."""
        wheel = self.wheel
        ours = str(wheel.resolve()) if wheel is not None else f"endcap=={self.endcap}"
        return [ours, *self.pip_packages]


def _check_wheel(wheel: Path, python: str) -> None:
    """Raise InvalidArgumentError for a wheel that pip would refuse, or that is another package's.

    The tags of a wheel: https://packaging.python.org/en/latest/specifications/binary-distribution-format
    """
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    if not wheel.is_file():
        raise InvalidArgumentError(f"--endcap {wheel} is no file; give a wheel of endcap")
    try:
        name, _, _, tags = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename as error:
        raise InvalidArgumentError(
            f"--endcap {wheel} is not named as a wheel is: {error}"
        ) from error
    if name != "endcap":
        raise InvalidArgumentError(
            f"--endcap {wheel} is a wheel of {name}; give one of endcap, and others by --pip"
        )
    wanted = f"cp{python.replace('.', '')}"
    interpreters = sorted({tag.interpreter for tag in tags})
    if wanted not in interpreters:
        raise ExecutionEnvironmentError(
            f"{wheel.name} is for {', '.join(interpreters)}, and the environment's Python is "
            f"{python}; make one with `make wheel PYTHON=python{python}`, or give another --python"
        )
