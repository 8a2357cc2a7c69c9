"""The machine that is checked: server and model repository, located once for all checks."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from endcap.errors import EndcapError
from endcap.server.backends import needs_stub
from endcap.server.locate import ServerInstallation, locate_server
from endcap.server.models import why_no_python
from endcap.server.plan import server_environment
from endcap.server.private_server import find_packages, make_environment
from endcap.server.process import SHARED_MEMORY
from endcap.server.settings import ServerPorts
from endcap.triton.errors import ServerError
from endcap.triton.model_folder import ModelFolder, read_repository


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The machine as `endcap serve` would see it.

    Attributes:
        find_repository: Returns the model repository, or raises an EndcapError.
        tritonserver: As for `locate_server`.
        shared_memory: Where Python-backend models put their tensors.
        ports: Those that a server would listen on.
    """

    find_repository: Callable[[], Path]
    tritonserver: Path | None = None
    shared_memory: Path = SHARED_MEMORY
    ports: ServerPorts = field(default_factory=ServerPorts)

    @functools.cached_property
    def located(self) -> ServerInstallation | ServerError:
        """The server, or why there is none."""
        try:
            return locate_server(self.tritonserver)
        except ServerError as error:
            return error

    @property
    def installation(self) -> ServerInstallation | None:
        """The server, None where there is none."""
        return self.located if isinstance(self.located, ServerInstallation) else None

    @functools.cached_property
    def repository(self) -> tuple[Path, list[ModelFolder]] | EndcapError:
        """The repository's folder and its models, or why it cannot be read."""
        try:
            folder = self.find_repository()
            return folder, read_repository(folder)
        except EndcapError as error:
            return error

    @property
    def models(self) -> list[ModelFolder]:
        """The models of the repository; none where it cannot be read."""
        return [] if isinstance(self.repository, EndcapError) else self.repository[1]

    @property
    def shared_python_models(self) -> list[ModelFolder]:
        """The models that would run in the Python that runs endcap.

        Optional ones are not among them where none can run: `endcap serve` leaves those out.
        """
        if self.installation is None or not needs_stub(self.installation):
            return []
        cannot = why_no_python(self.installation) is not None
        return [
            model
            for model in self.models
            if model.uses_shared_python and not (cannot and model.is_optional)
        ]

    @property
    def has_private_python(self) -> bool:
        """Whether Python models would run in the environment that endcap makes for its server."""
        return self.installation is not None and self.installation.is_private

    @functools.cached_property
    def packages(self) -> Path | ServerError | None:
        """The packages that endcap has installed for Python models, None before that."""
        try:
            return find_packages(self.models)
        except ServerError as error:
            return error

    @contextmanager
    def model_packages(self) -> Iterator[Path | None]:
        """Yield the site-packages of the environment that endcap would make; None before that."""
        if not isinstance(self.packages, Path):
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="endcap-doctor-") as scratch:
            make_environment(Path(scratch, "python"), self.packages)
            (folder,) = Path(scratch).glob("python/lib/python3.*/site-packages")
            yield folder

    @contextmanager
    def environment(self) -> Iterator[dict[str, str]]:
        """Yield the environment of the server's process.

        Raises:
            ServerError: The environment cannot be made.
        """
        assert self.installation is not None  # the caller has checked
        with tempfile.TemporaryDirectory(prefix="endcap-doctor-") as scratch:
            packages = self.packages if self.has_private_python else None
            if isinstance(packages, ServerError):
                raise packages
            yield server_environment(self.installation, Path(scratch), packages)
