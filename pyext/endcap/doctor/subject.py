"""The machine that is checked: server and model repository, located once for all checks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from endcap.errors import EndcapError, ServerError
from endcap.server.backends import needs_stub
from endcap.server.locate import ServerInstallation, locate_server
from endcap.server.models import why_no_python
from endcap.server.private_server import packages_folder
from endcap.server.process import SHARED_MEMORY
from endcap.triton.model_folder import ModelFolder, read_repository


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The machine as `endcap serve` would see it.

    Attributes:
        find_repository: Returns the model repository, or raises an EndcapError.
        tritonserver: As for `locate_server`.
        shared_memory: Where Python-backend models put their tensors.
    """

    find_repository: Callable[[], Path]
    tritonserver: Path | None = None
    shared_memory: Path = SHARED_MEMORY

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
        """The models that would run in the Python that `endcap serve` gives the server.

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

    @functools.cached_property
    def packages(self) -> Path | None:
        """The packages that endcap has installed for Python models on its own server.

        None before that, and for other servers.

        Raises:
            ServerError: The cache cannot be used.
        """
        is_private = self.installation is not None and self.installation.is_private
        return packages_folder() if is_private and packages_folder().exists() else None
