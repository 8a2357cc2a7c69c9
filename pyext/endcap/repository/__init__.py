"""Model repositories: writing one from a network's file, and checking one."""

from endcap.repository.errors import RepositoryError

__all__ = ["RepositoryError"]
