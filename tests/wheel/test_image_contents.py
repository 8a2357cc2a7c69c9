"""The account of an image's files, and what the check of its bill finds: one fault at a time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import image_contents  # noqa: E402
import image_page  # noqa: E402

BILL = "/usr/share/doc/endcap/sbom.cdx.json"
PACKAGES = "opt/endcap/lib/python3.11/site-packages"
STATUS = """Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2-1
Maintainer: nobody <nobody@example.org>
Description: shell

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
Maintainer: nobody <nobody@example.org>
Description: its files are removed

"""
LIBRARIES = ("libjpeg-turbo", "libpng", "libwebp", "giflib", "highway")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A root file system with a Debian package, a Python package and their bill."""
    write(tmp_path / "var/lib/dpkg/status", STATUS)
    write(tmp_path / "var/lib/dpkg/info/bash.list", "/.\n/bin\n/bin/bash\n")
    write(tmp_path / "usr/bin/bash", "x" * 100)
    (tmp_path / "bin").symlink_to("usr/bin")
    info = tmp_path / PACKAGES / "endcap-1.0.dist-info"
    write(info / "METADATA", "Metadata-Version: 2.1\nName: endcap\nVersion: 1.0\n")
    write(tmp_path / BILL.lstrip("/"), json.dumps(bill()))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def bill() -> dict[str, Any]:
    inner = [
        {"type": "library", "name": name, "version": "1", "bom-ref": name} for name in LIBRARIES
    ]
    components = [
        component("bash", "5.2-1", "pkg:deb/debian/bash@5.2-1?arch=amd64"),
        {**component("endcap", "1.0", "pkg:pypi/endcap@1.0"), "components": inner},
    ]
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}


def component(name: str, version: str, url: str) -> dict[str, Any]:
    return {"type": "library", "name": name, "version": version, "purl": url, "bom-ref": url}


def problems(image: Path) -> list[str]:
    return list(image_contents.check_bill(image, BILL, [PACKAGES]))


def test_a_bill_of_all_packages_is_well(image: Path) -> None:
    assert problems(image) == []


def _without_bash(bill: dict[str, Any]) -> None:
    del bill["components"][0]


def _with_another(bill: dict[str, Any]) -> None:
    bill["components"].append(component("pip", "23", "pkg:pypi/pip@23"))


def _another_version(bill: dict[str, Any]) -> None:
    bill["components"][1]["purl"] = "pkg:pypi/endcap@2.0"


def _without_libraries(bill: dict[str, Any]) -> None:
    del bill["components"][1]["components"]


def _not_the_schema(bill: dict[str, Any]) -> None:
    bill["components"][0]["typ"] = "library"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (_without_bash, "lacks deb package bash 5.2-1"),
        (_with_another, "lists pypi package pip 23, which the image does not have"),
        (_another_version, "lacks pypi package endcap 1.0"),
        (_without_libraries, "does not say that endcap holds libjpeg-turbo"),
        (_not_the_schema, "does not follow 1.6 of CycloneDX"),
    ],
)
def test_a_fault_of_the_bill_is_found(
    image: Path, fault: Callable[[dict[str, Any]], None], said: str
) -> None:
    changed = bill()
    fault(changed)
    write(image / BILL.lstrip("/"), json.dumps(changed))
    assert any(said in problem for problem in problems(image))


def test_an_image_without_a_bill_is_a_fault(image: Path) -> None:
    (image / BILL.lstrip("/")).unlink()
    assert problems(image) == [f"the image has no {BILL}"]


def test_each_file_has_one_component(image: Path) -> None:
    write(image / "opt/server/pytriton/tritonserver/bin/tritonserver", "x" * 30)
    write(image / PACKAGES / "endcap/_core.so", "x" * 7)
    os.link(image / PACKAGES / "endcap/_core.so", image / PACKAGES / "endcap/again.so")
    sizes = image_contents.account(image)
    assert sizes["Triton: the program tritonserver"] == 30
    assert sizes["endcap: core and C library"] == 7, "a hard link counts once"
    assert sizes["Debian: other packages"] == 100, "the list names it by the link /bin"
    files = {
        path.stat().st_ino: path.stat().st_size
        for path in (each for each in image.rglob("*") if not each.is_symlink())
        if path.is_file()
    }
    assert sum(sizes.values()) == sum(files.values())


def test_the_page_has_the_committed_sizes() -> None:
    sizes = json.loads(image_page.RESULTS.read_text(encoding="utf-8"))
    page = image_page.PAGE.read_text(encoding="utf-8")
    assert page == image_page.fill(page, sizes), "run: python scripts/image_page.py"


def test_the_committed_sizes_are_whole() -> None:
    for image in json.loads(image_page.RESULTS.read_text(encoding="utf-8")).values():
        assert sum(image["components"].values()) == image["bytes"]
