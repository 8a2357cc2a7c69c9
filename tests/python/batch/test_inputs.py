"""Which images a data set has, how it is divided, and what reading it gives."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endcap.batch import inputs
from endcap.batch.inputs import EncodedImage, Shard, list_images, read_shard
from endcap.batch.storage import BatchError
from endcap.errors import InvalidArgumentError


def make(folder: Path, *names: str) -> list[Path]:
    """Files whose content is their name."""
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(path.name.encode())
    return paths


def read_all(*locations: object, column: str | None = None) -> list[EncodedImage]:
    listing = list_images([str(each) for each in locations], column=column)
    return [image for shard in listing.shards for image in read_shard(shard)]


def contents(images: list[EncodedImage]) -> list[bytes | None]:
    return [image.data for image in images]


def test_a_folder_has_all_below_it_in_order(tmp_path: Path) -> None:
    make(tmp_path, "b.jpg", "a/z.PNG", "a/y.jpeg", "notes.txt", "a/list.csv", ".hidden.jpg")
    listing = list_images([str(tmp_path)])
    assert sum(shard.count for shard in listing.shards) == 3
    assert listing.skipped == {".txt": 1, ".csv": 1, ".jpg": 1}
    images = read_all(tmp_path)
    assert [Path(image.path).name for image in images] == ["y.jpeg", "z.PNG", "b.jpg"]
    assert contents(images) == [b"y.jpeg", b"z.PNG", b"b.jpg"]


def test_patterns(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "ab.jpg", "sub/a.jpg", "sub/deep/a.png")
    assert contents(read_all(tmp_path / "a*.jpg")) == [b"a.jpg", b"ab.jpg"]
    assert contents(read_all(tmp_path / "*" / "a.*")) == [b"a.jpg"]
    assert len(read_all(tmp_path / "**" / "*.*")) == 4


def test_an_image_counts_once(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "b.jpg")
    assert contents(read_all(tmp_path / "b.jpg", tmp_path)) == [b"b.jpg", b"a.jpg"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    """They may lead in a circle, or to somebody else's files."""
    make(tmp_path, "photos/a.jpg", "elsewhere/b.jpg")
    (tmp_path / "photos" / "again").symlink_to(tmp_path / "photos")
    (tmp_path / "photos" / "else").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos" / "c.jpg").symlink_to(tmp_path / "elsewhere" / "b.jpg")
    assert contents(read_all(tmp_path / "photos")) == [b"a.jpg", b"b.jpg"]
    assert contents(read_all(tmp_path / "photos" / "**" / "*.jpg")) == [b"a.jpg", b"b.jpg"]


def test_shards_hold_whole_batches(tmp_path: Path) -> None:
    make(tmp_path, *(f"{number:03}.jpg" for number in range(40)))
    shards = list_images([str(tmp_path)]).shards
    assert [shard.count for shard in shards] == [16, 16, 8]
    assert [Path(shard.paths[0]).name for shard in shards] == ["000.jpg", "016.jpg", "032.jpg"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing", "does not exist"), ("notes.txt", r"is not an image or \.parquet file"),
     ("*.bmp", "there are no images in .* image files are known by their suffixes")],
)  # fmt: skip
def test_unreadable_input_is_reported(tmp_path: Path, name: str, message: str) -> None:
    make(tmp_path, "notes.txt")
    with pytest.raises(InvalidArgumentError, match=message):
        list_images([str(tmp_path / name)])


def test_unknown_file_system_is_reported() -> None:
    with pytest.raises(InvalidArgumentError, match="ftp://host/a cannot be used"):
        list_images(["ftp://host/a"])


def test_a_password_in_a_location_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="AWS_SECRET_ACCESS_KEY"):
        list_images(["s3://key:secret@bucket/photos"])


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_MAX_BYTES", 100)
    files = {"a_large.jpg": bytes(101), "b_small.jpg": bytes(100)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    large, small = read_all(tmp_path)
    assert (large.data, large.error) == (None, "the file has 101 bytes; at most 100 are read")
    assert small.data == bytes(100)


def test_files_that_are_done_are_left_out(tmp_path: Path) -> None:
    a, _, c = make(tmp_path, "a.jpg", "b.jpg", "c.jpg")
    listing = list_images([str(tmp_path)], done={str(a), str(c), "/elsewhere/b.jpg"})
    assert ([shard.paths for shard in listing.shards], listing.done) == (
        [(str(tmp_path / "b.jpg"),)], 2,
    )  # fmt: skip


def test_a_file_that_is_gone_is_an_image_with_an_error(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "b.jpg", "c.jpg")
    (shard,) = list_images([str(tmp_path)]).shards
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).unlink()
    os.mkfifo(tmp_path / "b.jpg")
    first, second, third = read_shard(shard)
    assert first.data is None
    assert first.path.endswith("a.jpg")
    assert "cannot be read" in str(first.error)
    assert second.error == "it is not a file"
    assert third.data == b"c.jpg"


def test_files_are_read_in_order_and_not_all_at_once(tmp_path: Path) -> None:
    paths = make(tmp_path, *(f"{number:04}.jpg" for number in range(200)))
    shards = [Shard(str(tmp_path), tuple(map(str, paths)), count=200)]
    images = read_shard(shards[0])
    assert next(images).data == b"0000.jpg"
    for path in paths[100:]:  # far behind what is read ahead
        path.unlink()
    rest = list(images)
    assert contents(rest[:99]) == [path.name.encode() for path in paths[1:100]]
    assert all(image.data is None for image in rest[99:])


# Parquet files.


def write_parquet(path: Path, rows: list[dict[str, object]], rows_of_a_group: int = 2) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=rows_of_a_group)
    return path


def test_a_column_of_bytes(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"id": n, "image": b"%d" % n} for n in range(5)]
    path = write_parquet(tmp_path / "a.parquet", rows)
    listing = list_images([str(path)])
    assert [(shard.count, shard.groups) for shard in listing.shards] == [(5, (0, 1, 2))]
    images = read_all(path)
    assert [image.path for image in images] == [f"{path}#{row}" for row in range(5)]
    assert contents(images) == [b"0", b"1", b"2", b"3", b"4"]
    later = Shard(str(path), (str(path),), (1, 2), "image", 3)
    assert list(read_shard(later)) == images[2:]


def test_structs_as_the_library_datasets_writes_them(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"image": {"bytes": b"inside", "path": "a.jpg"}},
        {"image": {"bytes": None, "path": "a.jpg"}},
        {"image": None},
    ]
    images = read_all(write_parquet(tmp_path / "a.parquet", rows))
    assert contents(images) == [b"inside", None, None]
    assert images[1].error == images[2].error == "there are no bytes"


def test_undecodable_name_is_an_image_with_an_error(tmp_path: Path) -> None:
    make(tmp_path / "photos", "a.jpg", "c.jpg")
    (tmp_path / "photos" / "b\udcff.jpg").write_bytes(b"b.jpg")
    images = read_all(tmp_path / "photos")
    assert sorted(map(str, contents(images))) == ["None", "b'a.jpg'", "b'c.jpg'"]
    (bad,) = (image for image in images if image.data is None)
    assert bad.path == f"{tmp_path}/photos/b\\udcff.jpg"
    assert "cannot be read" in str(bad.error)


def test_the_column_may_be_named(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"mine": b"x", "image": b"y"}])
    assert contents(read_all(path, column="mine")) == [b"x"]
    with pytest.raises(InvalidArgumentError, match=r"has the columns mine, image; .* --column"):
        list_images([str(path)], column="other")


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(BatchError, match=r"a\.parquet cannot be read"):
        list_images([str(tmp_path)])


def test_a_parquet_file_that_is_damaged_later_gives_an_error_row(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"image": bytes(range(256))}] * 4)
    (shard,) = list_images([str(path)]).shards
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)  # the header of the first page
    path.write_bytes(content)
    images = list(read_shard(shard))
    assert [image.data for image in images] == [None]
    assert "cannot be read further" in str(images[0].error)
