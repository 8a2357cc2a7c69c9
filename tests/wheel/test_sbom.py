"""The bill of materials of a wheel, and what its check finds: one fault at a time."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import sbom  # noqa: E402

WHEEL = "endcap-1.2.3-cp311-cp311-linux_x86_64.whl"
DIST_INFO = "endcap-1.2.3.dist-info"
BILL = f"{DIST_INFO}/{sbom.SBOM_NAME}"
TREE = ROOT / "build" / "dev"
NATIVES = {
    "endcap/_core.cpython-311-x86_64-linux-gnu.so": b"module",
    "endcap/libendcap_jpeg.so": b"jpeg",
    "endcap/backends/endcap_preprocess/libtriton_endcap_preprocess.so": b"backend",
    "endcap/backends/python_stub/triton_python_backend_stub": b"program",
}

needs_tree = pytest.mark.skipif(
    not (TREE / "CMakeCache.txt").is_file(), reason="the development tree is not built"
)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**NATIVES, f"{DIST_INFO}/METADATA": b""}.items():
            archive.writestr(name, content)
    sbom.write_sbom(path, TREE, cuda=False, epoch=1_700_000_000)
    return path


def unpack(wheel: Path, folder: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        return set(archive.namelist())


@needs_tree
def test_the_bill_names_what_is_inside_with_versions(wheel: Path, tmp_path: Path) -> None:
    names = unpack(wheel, tmp_path / "files")
    assert list(sbom.check_sbom(tmp_path / "files", names)) == []
    bill = json.loads((tmp_path / "files" / BILL).read_text())
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    libraries = {c["name"]: c for c in bill["components"] if c["type"] == "library"}
    assert {*libraries} == {
        "highway", "libgcc", "libjpeg-turbo", "libstdc++", "nlohmann-json", "pybind11",
    }  # fmt: skip
    assert all(library["purl"].startswith("pkg:") for library in libraries.values())
    import pybind11

    assert libraries["pybind11"]["version"] == pybind11.__version__
    assert libraries["pybind11"]["purl"] == f"pkg:pypi/pybind11@{pybind11.__version__}"


@needs_tree
def test_the_same_files_give_the_same_bill(wheel: Path, tmp_path: Path) -> None:
    again = tmp_path / "again" / WHEEL
    again.parent.mkdir()
    with zipfile.ZipFile(again, "w") as archive:
        for name, content in {**NATIVES, f"{DIST_INFO}/METADATA": b""}.items():
            archive.writestr(name, content)
    sbom.write_sbom(again, TREE, cuda=False, epoch=1_700_000_000)
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert first.read(BILL) == second.read(BILL)


def without_highway(bill: dict[str, Any]) -> None:
    bill["components"] = [c for c in bill["components"] if c["name"] != "highway"]


def without_a_file(bill: dict[str, Any]) -> None:
    bill["components"] = [c for c in bill["components"] if c["name"] != "endcap/libendcap_jpeg.so"]


def with_another_hash(bill: dict[str, Any]) -> None:
    (file,) = (c for c in bill["components"] if c["name"] == "endcap/libendcap_jpeg.so")
    file["hashes"][0]["content"] = "0" * 64


def with_a_file_too_many(bill: dict[str, Any]) -> None:
    file = {"type": "file", "bom-ref": "x", "name": "endcap/other.so", "hashes": []}
    bill["components"].append(file)


def without_a_purl(bill: dict[str, Any]) -> None:
    (library,) = (c for c in bill["components"] if c["name"] == "pybind11")
    del library["purl"]


def without_the_edges(bill: dict[str, Any]) -> None:
    bill["dependencies"] = bill["dependencies"][:1]


def with_an_unknown_key(bill: dict[str, Any]) -> None:
    bill["colour"] = "red"


@needs_tree
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_highway, "_core.cpython-311-x86_64-linux-gnu.so holds highway"),
        (without_a_file, "endcap/libendcap_jpeg.so is missing in sboms/"),
        (with_another_hash, "another hash of endcap/libendcap_jpeg.so"),
        (with_a_file_too_many, "endcap/other.so is missing in the wheel"),
        (without_a_purl, "no purl of pybind11"),
        (without_the_edges, "libendcap_jpeg.so holds libjpeg-turbo"),
        (with_an_unknown_key, "does not follow 1.6 of CycloneDX"),
    ],
)
def test_a_fault_of_the_bill_is_told(
    wheel: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    folder = tmp_path / "files"
    names = unpack(wheel, folder)
    bill = json.loads((folder / BILL).read_text())
    change(bill)
    (folder / BILL).write_text(json.dumps(bill))
    assert any(said in problem for problem in sbom.check_sbom(folder, names))


def test_a_native_file_that_is_not_known_is_refused() -> None:
    with pytest.raises(sbom.SbomError, match=r"it is not known what endcap/new\.so holds"):
        sbom.native_files({"endcap/new.so"})


def test_a_header_without_a_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CMakeCache.txt").write_text(
        "".join(f"ENDCAP_{name}_LIBRARY:FILEPATH={tmp_path}\n" for name in sbom.IMAGE_LIBRARIES)
        + f"ENDCAP_jpeg_INCLUDE_DIR:PATH={tmp_path}\nENDCAP_HIGHWAY_INCLUDE_DIR:PATH={tmp_path}\n"
        f"nlohmann_json_DIR:PATH={tmp_path}\npybind11_DIR:PATH={tmp_path}\n"
        "CMAKE_CXX_COMPILER:FILEPATH=g++\n"
    )
    with pytest.raises(sbom.SbomError, match=r"no jconfig\.h in .*libjpeg-turbo's version"):
        sbom.find_libraries(tmp_path, cuda=False)


def test_record_is_compared_with_the_files(tmp_path: Path) -> None:
    record = f"{DIST_INFO}/RECORD"
    (tmp_path / DIST_INFO).mkdir()
    (tmp_path / "module.py").write_bytes(b"x = 1")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1").digest()).decode().rstrip("=")
    (tmp_path / record).write_text(f"module.py,sha256={digest},5\n{record},,\n")
    names = {"module.py", record}
    assert list(sbom.check_record(tmp_path, names)) == []
    (tmp_path / "module.py").write_bytes(b"x = 2")
    assert list(sbom.check_record(tmp_path, names)) == ["RECORD has another hash of module.py"]
    assert list(sbom.check_record(tmp_path, {record})) == ["module.py is in RECORD only"]
