"""Release of a Triton server, by the files beside its program."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass

from endcap.server.locate import ServerInstallation

# Container releases and the versions in them, by TRITON_VERSION of the branches r20.06 to r26.08 of
# triton-inference-server/server.
_MONTHLY = """
20.06 2.0.0   20.07 2.1.0   20.08 2.2.0   20.09 2.3.0   20.10 2.4.0   20.11 2.5.0   20.12 2.6.0
21.02 2.7.0   21.03 2.8.0   21.04 2.9.0   21.05 2.10.0  21.06 2.11.0  21.07 2.12.0
21.08 2.13.0  21.09 2.14.0  21.10 2.15.0  21.11 2.16.0  21.12 2.17.0
22.01 2.18.0  22.02 2.19.0  22.03 2.20.0  22.04 2.21.0  22.05 2.22.0  22.06 2.23.0
22.07 2.24.0  22.08 2.25.0  22.09 2.26.0  22.10 2.27.0  22.11 2.28.0  22.12 2.29.0
23.01 2.30.0  23.02 2.31.0  23.03 2.32.0  23.04 2.33.0  23.05 2.34.0  23.06 2.35.0
23.07 2.36.0  23.08 2.37.0  23.09 2.38.0  23.10 2.39.0  23.11 2.40.0  23.12 2.41.0
24.01 2.42.0  24.02 2.43.0  24.03 2.44.0  24.04 2.45.0  24.05 2.46.0  24.06 2.47.0
24.07 2.48.0  24.08 2.49.0  24.09 2.50.0  24.10 2.51.0  24.11 2.52.0  24.12 2.53.0
25.01 2.54.0  25.02 2.55.0  25.03 2.56.0  25.04 2.57.0  25.05 2.58.0  25.06 2.59.0
25.07 2.59.1  25.08 2.60.0  25.09 2.61.0  25.10 2.62.0  25.11 2.63.0  25.12 2.64.0
26.01 2.65.0  26.02 2.66.0  26.03 2.67.0  26.04 2.68.0  26.05 2.69.0  26.06 2.70.0
26.07 2.71.0  26.08 2.72.0
"""
_VERSIONS = dict(zip(_MONTHLY.split()[::2], _MONTHLY.split()[1::2], strict=True))
_MONTHS = {version: month for month, version in _VERSIONS.items()}

_WHEEL = "nvidia-pytriton"
# CHANGELOG.md of triton-inference-server/pytriton
_WHEEL_VERSIONS = dict.fromkeys(("0.5.13", "0.5.14", "0.6.0", "0.7.0"), "2.51.0")

_MONTH = re.compile(r"\d\d\.\d\d")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?([a-z+-].*)?")


@dataclass(frozen=True, order=True)
class Release:
    """A release of Triton; releases compare by their age.

    Attributes:
        version: Major, minor and patch version.
        is_final: False for a build on the way to this version, such as 2.71.0dev.
    """

    version: tuple[int, int, int]
    is_final: bool = True

    @classmethod
    def parse(cls, text: str) -> Release:
        """Read "2.51.0", "2.51", "2.71.0dev", or the month of a container, "24.10".

        Raises:
            ValueError: The text is none of these, or a month of which no release is known.
        """
        if _MONTH.fullmatch(text):
            if text not in _VERSIONS:
                raise ValueError(f"no Triton release {text} is known")
            text = _VERSIONS[text]
        match = _VERSION.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a version of Triton, such as 2.51.0")
        major, minor, patch, suffix = match.groups()
        return cls((int(major), int(minor), int(patch or 0)), is_final=suffix is None)

    @property
    def month(self) -> str | None:
        """Return the container release, such as "24.10"; None where that is not known."""
        return _MONTHS.get(str(self))

    def __str__(self) -> str:
        """Return the version, such as "2.51.0"."""
        return ".".join(map(str, self.version)) + ("" if self.is_final else "dev")


@dataclass(frozen=True, kw_only=True)
class ServerRelease:
    """Release of an installed server.

    Attributes:
        name: What to call it, such as "tritonserver 2.51.0, release 24.10".
        release: None where the installation does not have it.
    """

    name: str
    release: Release | None

    def __str__(self) -> str:
        """Return the name."""
        return self.name


def read_release(server: ServerInstallation) -> ServerRelease:
    """Return a server's release, by the files beside the program, which is not run."""
    root = server.executable.parent.parent
    # NVIDIA's container writes its version into the installation's folder.
    written = root / "TRITON_VERSION"
    if written.is_file():
        return _named(written.read_text(encoding="utf-8", errors="replace").strip())
    site_packages = root.parent.parent
    for wheel in importlib.metadata.distributions(name=_WHEEL, path=[str(site_packages)]):
        name = f"{_WHEEL} {wheel.version}"
        if wheel.version not in _WHEEL_VERSIONS:
            return ServerRelease(
                name=f"{name} with a tritonserver of unknown release", release=None
            )
        inner = _named(_WHEEL_VERSIONS[wheel.version])
        return ServerRelease(name=f"{name} with {inner}", release=inner.release)
    return ServerRelease(name="tritonserver of unknown release", release=None)


def _named(version: str) -> ServerRelease:
    try:
        release = Release.parse(version)
    except ValueError:
        return ServerRelease(name=f"tritonserver {version}, an unknown release", release=None)
    name = f"tritonserver {version}"
    if release.month is not None:
        name += f", release {release.month}"
    return ServerRelease(name=name, release=release)
