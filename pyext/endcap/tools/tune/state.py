"""State file: the measurements so far, and what they are measurements of.

The search is a function of its measurements, so that it goes on after an interrupt by asking for
the same ones again: those that the file has are not repeated. The file is replaced as a whole after
each. Measurements of another machine, repository, set of images or options are not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from endcap._system.written_file import whole_text_file
from endcap.errors import InvalidArgumentError
from endcap.tools.tune.windows import Measured, Window
from endcap.triton.installation import gpu_count
from endcap.triton.model_folder import ModelFolder

_FORMAT = 2
_MARK = "made by endcap tune"
_CPU_INFO = Path("/proc/cpuinfo")
_BLOCK = 1 << 20

# By what it is about, such as "machine", a text or digest.
Identity = Mapping[str, str]


class State:
    """The measurements of one search, in a file.

    Args:
        file: Where they are kept.
        identity: What they are measurements of.
        restart: Whether to begin without those of the file.
        clock: Gives seconds.

    Attributes:
        spent_s: Seconds that were spent until the last measurement that was asked for.
        differs: What another identity the file's measurements had, which are not used; else "".
        reused: The number of measurements that the file has had.

    Raises:
        InvalidArgumentError: The file is not one of this program.
    """

    def __init__(
        self,
        file: Path,
        identity: Identity,
        *,
        restart: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spent_s = 0.0
        self.differs = ""
        self._file = file
        self._identity = dict(identity)
        self._known: dict[str, tuple[Measured, float]] = {}
        self._rows: list[str] = []  # of the file, as text
        self._clock = clock
        self._since_s = clock()
        if file.exists():
            self._read(restart)
        self.reused = len(self._known)

    @property
    def now_s(self) -> float:
        """Seconds that were spent until now."""
        return self.spent_s + self._clock() - self._since_s

    def get(self, window: Window) -> Measured | None:
        """Return what a window gave, None where it was not measured."""
        found = self._known.get(_key(window))
        if found is None:
            return None
        measured, spent_s = found
        self.spent_s = max(self.spent_s, spent_s)
        self._since_s = self._clock()
        return measured

    def put(self, window: Window, measured: Measured, waited_s: float) -> None:
        """Keep what a window gave, and write the file.

        Args:
            window: What was measured.
            measured: What that gave.
            waited_s: Seconds since the last measurement that were spent with waiting.
        """
        now = self._clock()
        self.spent_s += now - self._since_s - waited_s
        self._since_s = now
        self._add(window, measured, self.spent_s)
        content = {"comment": _MARK, "format": _FORMAT, "identity": self._identity}
        rows = ",\n".join(self._rows)
        with whole_text_file(self._file, follow_links=False) as stream:
            stream.write(f'{json.dumps(content)[:-1]}, "measurements": [\n{rows}\n]}}\n')

    def _add(self, window: Window, measured: Measured, spent_s: float) -> None:
        self._known[_key(window)] = measured, spent_s
        row = {**window.to_json(), **measured.to_json(), "spent_s": round(spent_s, 3)}
        self._rows.append(json.dumps(row))

    def _read(self, restart: bool) -> None:
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise InvalidArgumentError(
                f"{self._file} cannot be read as the state of a search ({error}); move it away, or "
                "give another --output"
            ) from error
        if not isinstance(content, dict) or content.get("comment") != _MARK:
            raise InvalidArgumentError(
                f"{self._file} is not a file of endcap tune; move it away, or give another --output"
            )
        if restart:
            return
        before = content.get("identity", {})
        other = [name for name, value in self._identity.items() if before.get(name) != value]
        if content.get("format") != _FORMAT:
            other = ["the version of endcap"]
        if other:
            self.differs = ", ".join(other)
            return
        for row in content["measurements"]:
            window = Window.from_json(row)
            figures = {name: row[name] for name in Measured().to_json()}
            self._add(window, Measured.from_json(figures), float(row["spent_s"]))


def _key(window: Window) -> str:
    return json.dumps(window.to_json(), sort_keys=True)


def identify(
    models: Iterable[ModelFolder], images: Sequence[bytes], server: Path, options: Mapping[str, Any]
) -> dict[str, str]:
    """Return what measurements depend on, by name: texts and digests.

    Args:
        models: All that are served.
        images: That are sent.
        server: The server's program.
        options: Of the command.
    """
    program = server.stat()
    return {
        "the machine": _machine(),
        "the version of endcap": _version(),
        "the server": f"{server}, {program.st_size} bytes, {program.st_mtime_ns}",
        "the repository": _digest_of_models(models),
        "the images": hashlib.sha256(b"".join(map(_digest, images))).hexdigest(),
        "the options": json.dumps(options, sort_keys=True),
    }


def _version() -> str:
    from importlib.metadata import version

    return version("endcap")


def _machine() -> str:
    model = ""
    if _CPU_INFO.exists():
        lines = _CPU_INFO.read_text(errors="replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")
    cpus = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return f"{platform.node()}, {model}, {cpus} CPUs, {memory} MiB, {gpu_count()} GPUs"


def _digest_of_models(models: Iterable[ModelFolder]) -> str:
    whole = hashlib.sha256()
    for model in models:
        for file in sorted(each for each in model.path.rglob("*") if each.is_file()):
            if "__pycache__" in file.parts:
                continue
            whole.update(os.fsencode(file.relative_to(model.path.parent)) + b"\0")
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    whole.update(block)
    return whole.hexdigest()


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
