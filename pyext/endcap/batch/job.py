"""What a run is about to do, kept beside its results, so that it can be continued."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import posixpath
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import endcap
from endcap.batch.errors import BatchError, import_package
from endcap.batch.inputs import Listing, Shard
from endcap.batch.pipeline import PipelineSpec
from endcap.batch.results import finished_parts
from endcap.batch.storage import Storage
from endcap.errors import InvalidArgumentError

# A folder that readers of Parquet files leave out, by its first letter.
_FOLDER = "_endcap"
_MODEL = "model"
_ATTEMPTS = "attempts"
# Ray does a shard again whose process or machine was lost, which a shard that ends it never stops.
_MOST_ATTEMPTS = 5
_ATTEMPT_NAME = re.compile(r"[0-9]{6,}-[0-9a-f]{16}")
_JOB, _SHARDS = "job.json", "shards.parquet"


@dataclass(frozen=True)
class Job:
    """A data set in shards, and where their results go.

    Attributes:
        output: The folder of results.
        shards: All of them.
        finished: Those that are done, by their place.
        is_continued: Whether an earlier run began it.
    """

    output: Storage
    shards: tuple[Shard, ...]
    finished: frozenset[int]
    is_continued: bool

    @property
    def waiting(self) -> list[int]:
        """The shards that are not done, by their place."""
        return [number for number in range(len(self.shards)) if number not in self.finished]

    @property
    def count(self) -> int | None:
        """The number of images, None where archives do not tell it."""
        if any(shard.kind == "tar" for shard in self.shards):
            return None
        return sum(shard.count for shard in self.shards)


def save_model(output: Storage, spec: PipelineSpec) -> None:
    """Keep what detects beside the results, where all machines can read it."""
    spec.save(output, output.child(_FOLDER, _MODEL))


def load_model(output: Storage) -> PipelineSpec:
    """Return what `save_model` has kept."""
    return PipelineSpec.load(output, output.child(_FOLDER, _MODEL))


@contextlib.contextmanager
def counted_attempt(output: Storage, number: int, shard: Shard) -> Iterator[None]:
    """Count the attempts of a run at a shard that end with the process; of others none is left.

    Raises:
        BatchError: Before the block: there were too many.
    """
    folder, name = output.child(_FOLDER, _ATTEMPTS), f"{number:06}-"
    output.make_folder(folder)
    before = [path for path in _markers(output) if posixpath.basename(path).startswith(name)]
    if len(before) >= _MOST_ATTEMPTS:
        last = f" to {shard.paths[-1]}" if len(shard.paths) > 1 else ""
        raise BatchError(
            f"the process of part {number} was lost {len(before)} times; an image that ends it "
            f"may be one of {shard.paths[0]}{last}, or memory is too small: give fewer --workers"
        )
    marker = f"{folder}/{name}{secrets.token_hex(8)}"
    with output.whole_file(marker):
        pass
    try:
        yield
    except Exception:
        _forget(output, marker)
        raise
    for path in (*before, marker):
        _forget(output, path)


def forget_attempts(output: Storage) -> None:
    """Let a new run count its attempts from the start."""
    for path in _markers(output):
        _forget(output, path)


def _markers(output: Storage) -> list[str]:
    """Return the markers of attempts."""
    folder = output.child(_FOLDER, _ATTEMPTS)
    if not output.exists(folder):
        return []
    return [
        info.path
        for info in output.files(folder)
        if _ATTEMPT_NAME.fullmatch(info.base_name) and posixpath.dirname(info.path) == folder
    ]


def _forget(output: Storage, marker: str) -> None:
    """Remove a marker, which another run with the same output may have removed."""
    with contextlib.suppress(FileNotFoundError):
        output.filesystem.delete_file(marker)


def identity_of(detector: PipelineSpec | str, inputs: tuple[str, ...]) -> dict[str, Any]:
    """Return what a run must have in common with the one that it continues.

    Args:
        detector: What detects; a text is the name of a served model.
        inputs: The data set, as given.
    """
    if isinstance(detector, str):
        model: Mapping[str, Any] = {"served model": detector}
    else:
        model = {
            "preprocess": dict(detector.preprocess),
            "postprocess": dict(detector.postprocess),
            "network": {
                name: hashlib.sha256(content).hexdigest()
                for name, content in sorted(detector.files.items())
            },
        }
    return {"inputs": list(inputs), "model": model}


def open_job(location: str, identity: Mapping[str, Any], list_inputs: Callable[[], Listing]) -> Job:
    """Return the job of an output folder: the one that was begun there, or a new one.

    Args:
        location: The folder of results; made where there is none.
        identity: Of `identity_of`.
        list_inputs: Called for a new job: returns the `Listing` of its data set.

    Raises:
        InvalidArgumentError: The folder holds other files, or the job of another data set or model.
        BatchError: It cannot be read or written.
    """
    output = Storage(location)
    _refuse_output_in_inputs(output, identity["inputs"])
    _refuse_links(output)
    path = output.child(_FOLDER, _JOB)
    try:
        if output.exists(path):
            kept = json.loads(output.read(path))
            if not isinstance(kept, dict):
                raise ValueError(f"{_FOLDER}/{_JOB} is no JSON object")
            _check_same(kept, identity, output)
            finished = finished_parts(output)
            return Job(output, _read_shards(output), frozenset(finished), is_continued=True)
        if output.exists(output.path) and output.files(output.path):
            raise InvalidArgumentError(
                f"{output.url(output.path)} holds files that no run of `endcap batch` has made; "
                "give --output a new folder"
            )
        listing: Listing = list_inputs()
        output.make_folder(output.child(_FOLDER))
        _write_shards(output, listing)
        text = json.dumps({"endcap": endcap.__version__, **identity}, indent=1)
        with output.whole_file(path) as file:
            file.write(text.encode())
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise BatchError(f"{output.url(output.path)} cannot be used: {error}") from error
    return Job(output, tuple(listing.shards), frozenset(), is_continued=False)


def _refuse_output_in_inputs(output: Storage, inputs: Sequence[str]) -> None:
    """Raise InvalidArgumentError for a folder of results that a later run would read as images."""
    for location in inputs:
        storage = Storage(location)
        root = storage.path.rstrip("/")
        is_same = (storage.scheme, storage.is_local) == (output.scheme, output.is_local)
        if is_same and f"{output.path.rstrip('/')}/".startswith(f"{root}/"):
            raise InvalidArgumentError(
                f"{output.url(output.path)} lies in {location}, which is read with all below it; "
                "give --output a folder elsewhere"
            )


def _refuse_links(output: Storage) -> None:
    """Raise InvalidArgumentError where what a job keeps would be written into another folder."""
    for names in ((_FOLDER,), (_FOLDER, _MODEL), (_FOLDER, _ATTEMPTS)):
        path = output.child(*names)
        if output.is_local and os.path.islink(path):
            raise InvalidArgumentError(
                f"{path} is a symbolic link, which is not written through; give --output a new "
                "folder"
            )


def _check_same(kept: Mapping[str, Any], identity: Mapping[str, Any], output: Storage) -> None:
    other = [name for name, value in identity.items() if kept.get(name) != value]
    if other:
        raise InvalidArgumentError(
            f"{output.url(output.path)} holds results of other {' and of another '.join(other)}; "
            "give --output a new folder, or what the first run was given"
        )


def _write_shards(output: Storage, listing: Listing) -> None:
    parquet = import_package("pyarrow.parquet")
    with output.whole_file(output.child(_FOLDER, _SHARDS)) as file:
        parquet.write_table(shards_table(listing.shards), file)


def _read_shards(output: Storage) -> tuple[Shard, ...]:
    parquet = import_package("pyarrow.parquet")
    content = output.read(output.child(_FOLDER, _SHARDS))
    rows = parquet.read_table(io.BytesIO(content)).to_pylist()
    return tuple(shard_of(row) for row in rows)


def shards_table(shards: Sequence[Shard]) -> Any:
    """Return shards as a pyarrow.Table, a row for each."""
    pa = import_package("pyarrow")
    schema = pa.schema(
        [
            ("kind", pa.string()),
            ("location", pa.string()),
            ("paths", pa.list_(pa.string())),
            ("groups", pa.list_(pa.int32())),
            ("column", pa.string()),
            ("count", pa.int64()),
        ]
    )
    return pa.Table.from_pylist([asdict(shard) for shard in shards], schema=schema)


def shard_of(row: Mapping[str, Any]) -> Shard:
    """Return a shard of a row of a table."""
    return Shard(
        row["kind"], row["location"], tuple(row["paths"]), tuple(row["groups"]), row["column"],
        row["count"],
    )  # fmt: skip
