"""Bill of materials of an image: CycloneDX 1.6 in JSON, of what is installed where this runs.

python image_sbom.py --python python.cdx.json --packages PATH --unpacked PATH --output FILE

The Python packages come from the bill that `cyclonedx-py environment` has made, Debian's or
Ubuntu's packages from dpkg's database. The bills that wheels bring by PEP 770 give the libraries
inside them. Needs cyclonedx-python-lib, of which cyclonedx-bom has the command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

_LIBRARY = re.compile(r"\.so(\.\d+)*$")


def make_bill(
    python_bill: Path, packages: Iterable[Path], unpacked: Iterable[Path], name: str, version: str
) -> Bom:
    """Return the bill of the image.

    Args:
        python_bill: Of the environment, by cyclonedx-py.
        packages: Folders of the environment's packages, whose own bills are read.
        unpacked: Folders of wheels that were unpacked, and not installed.
        name: Of the image.
        version: Of the image.
    """
    bill = _read_bill(python_bill)
    bill.metadata.component = Component(
        type=ComponentType.CONTAINER, name=name, version=version, bom_ref=f"image:{name}"
    )
    bill.metadata.timestamp = datetime.now(timezone.utc)
    installed = {normalized(each.name): each for each in bill.components}
    for folder in packages:
        for distribution in metadata.distributions(path=[str(folder)]):
            owner = installed.get(normalized(distribution.metadata["Name"]))
            if owner is not None:
                if owner.purl is None:  # installed from a file
                    owner.purl = _project_url(distribution)
                owner.components.update(_own_components(distribution, owner))
    for folder in unpacked:
        for distribution in metadata.distributions(path=[str(folder)]):
            component = _unpacked_component(distribution)
            component.components.update(_own_components(distribution, component))
            component.components.update(_libraries(folder, component))
            bill.components.add(component)
    bill.components.update(system_components())
    bill.register_dependency(bill.metadata.component, bill.components)
    return bill


def normalized(name: str) -> str:
    """Return the name of a Python project as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def system_components() -> Iterator[Component]:
    """Yield the installed packages of Debian or Ubuntu."""
    system = platform.freedesktop_os_release()
    distribution = f"{system['ID']}-{system.get('VERSION_ID', 'unstable')}"
    command = ["dpkg-query", "--show"]
    command += ["--showformat=${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        status, name, version, architecture = line.split("\t")
        if status == "installed":
            qualifiers = {"arch": architecture, "distro": distribution}
            url = PackageURL("deb", system["ID"], name, version, qualifiers)
            yield Component(
                type=ComponentType.LIBRARY,
                name=name,
                version=version,
                purl=url,
                bom_ref=str(url),
            )


def _read_bill(path: Path) -> Bom:
    content = json.loads(path.read_text(encoding="utf-8"))
    bill: Bom = Bom.from_json(content)  # type: ignore[attr-defined]  # its decorator adds it
    return bill


def _unpacked_component(distribution: metadata.Distribution) -> Component:
    url = _project_url(distribution)
    return Component(
        type=ComponentType.LIBRARY,
        name=distribution.metadata["Name"],
        version=distribution.version,
        purl=url,
        bom_ref=str(url),
    )


def _project_url(distribution: metadata.Distribution) -> PackageURL:
    name = normalized(distribution.metadata["Name"])
    return PackageURL("pypi", None, name, distribution.version)


def _own_components(distribution: metadata.Distribution, owner: Component) -> Iterator[Component]:
    """Yield what a wheel's own bills list, all in one level; of files only those that are there."""
    for file in distribution.files or ():
        if file.parent.name == "sboms" and file.name.endswith(".json"):
            path = Path(str(distribution.locate_file(file)))
            for each in _flat(_read_bill(path).components):
                there = Path(str(distribution.locate_file(each.name))).is_file()
                is_itself = normalized(each.name) == normalized(owner.name)
                if not is_itself and (there or each.type is not ComponentType.FILE):
                    each.bom_ref.value = f"{owner.bom_ref.value}#{path.stem}#{each.bom_ref.value}"
                    yield each


def _flat(components: Iterable[Component]) -> Iterator[Component]:
    for each in [*components]:
        inner = [*each.components]
        each.components.clear()
        yield each
        yield from _flat(inner)


def _libraries(folder: Path, owner: Component) -> Iterator[Component]:
    """Yield the shared objects of an unpacked wheel that has no bill of its own."""
    if owner.components:
        return
    for path in sorted(folder.rglob("*")):
        if path.is_file() and _LIBRARY.search(path.name):
            name = path.relative_to(folder).as_posix()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            yield Component(
                type=ComponentType.FILE,
                name=name,
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
                bom_ref=f"{owner.bom_ref.value}#{name}",
            )


def main() -> None:
    """Write the bill, which has to follow the schema strictly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, required=True, help="bill by cyclonedx-py")
    parser.add_argument("--packages", type=Path, action="append", default=[])
    parser.add_argument("--unpacked", type=Path, action="append", default=[])
    parser.add_argument("--name", required=True, help="of the image")
    parser.add_argument("--version", required=True, help="of the image")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    bill = make_bill(given.python, given.packages, given.unpacked, given.name, given.version)
    text = JsonV1Dot6(bill).output_as_string(indent=1)
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        raise SystemExit(f"the bill does not follow CycloneDX 1.6: {fault}")
    given.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
