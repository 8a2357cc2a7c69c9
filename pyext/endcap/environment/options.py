"""Contents and sources of an environment, and the NumPy that its server's stub accepts."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from endcap._version import __version__
from endcap.environment.stub import find_real_stub
from endcap.errors import InvalidArgumentError
from endcap.server.locate import locate_if_there

RUNNING_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_DEFAULT_CHANNEL = "conda-forge"
_BELOW_2 = "<2"


@dataclass(frozen=True, kw_only=True)
class PackOptions:
    """The options of `endcap env pack`.

    Attributes:
        python: Major and minor version of the environment's Python, such as "3.11".
        packages: Conda specifications, such as "scipy >=1.10".
        pip_packages: Requirements for pip, or paths of wheels.
        endcap: A wheel of endcap, or the version that pip is to find.
        channels: Names, URLs or folders, the first one before the others.
        find_links: Folders of wheels in which pip looks as well.
        offline: Read folders only, no channel or index of the network.
        compress_level: 0 (as large as it is) to 9 (slowest).
    """

    python: str = RUNNING_PYTHON
    packages: tuple[str, ...] = ()
    pip_packages: tuple[str, ...] = ()
    endcap: str = __version__
    channels: tuple[str, ...] = (_DEFAULT_CHANNEL,)
    find_links: tuple[Path, ...] = ()
    offline: bool = False
    compress_level: int = field(default=4)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"3\.\d+", self.python):
            raise InvalidArgumentError(
                f"--python is '{self.python}'; give major and minor version, such as 3.11"
            )
        for text in self.pip_packages:
            if text.lstrip().startswith("-"):  # pip would take it as an option, --index-url as well
                raise InvalidArgumentError(
                    f"--pip is '{text}'; give a requirement or a wheel, and pip's options by its "
                    "environment variables, such as PIP_INDEX_URL"
                )
        if self.wheel is not None and not self.wheel.is_file():
            raise InvalidArgumentError(
                f"--endcap {self.wheel} does not exist; give a wheel of endcap"
            )

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


@dataclass(frozen=True)
class NumpyLimit:
    """A version specifier for NumPy, "" without a limit, and the reason for it."""

    specifier: str
    reason: str


def find_numpy_limit(
    python: str, *, real: Path | None = None, tritonserver: Path | None = None
) -> NumpyLimit:
    """Return the NumPy versions that the stub for a Python accepts.

    Without a server, NumPy 2 is ruled out: older stubs return empty tensors with it.

    Args:
        python: Major and minor version, such as "3.11".
        real: The release's own stub; None takes that of the server.
        tritonserver: As for `locate_server`.

    Raises:
        ServerError: `tritonserver` is no server.
        StubError: There is no stub for this Python.
    """
    server = locate_if_there(tritonserver) if real is None else None
    if real is None and server is None:
        return NumpyLimit(_BELOW_2, "no server was found whose stub would say; name one by --real")
    stub, description = find_real_stub(server, python, real)
    if description.takes_numpy_2:
        return NumpyLimit("", f"the stub {stub} goes with any NumPy")
    if description.takes_numpy_2 is None:
        return NumpyLimit(_BELOW_2, f"the stub {stub} does not say what it goes with")
    return NumpyLimit(_BELOW_2, f"with a later one the stub {stub} returns empty tensors")
