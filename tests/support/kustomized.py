"""What kustomize makes of the files of `endcap bundle`, as far as they use it.

Resources and folders, strategic merges into a Deployment, images and the namespace. Where kubectl
is installed, a test compares this with `kubectl kustomize`.
"""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]
_KNOWN = {"apiVersion", "kind", "namespace", "resources", "patches", "images"}
_WITHOUT_NAMESPACE = {"Namespace"}
_OLDEST_KUSTOMIZE = 5


def build(folder: Path) -> list[Manifest]:
    """The manifests of a kustomization."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(kustomization) <= _KNOWN, f"this builder does not know {kustomization}"
    manifests: list[Manifest] = []
    for resource in kustomization["resources"]:
        path = folder / resource
        manifests += build(path) if path.is_dir() else load(path)
    for patch in kustomization.get("patches", []):
        for change in load(folder / patch["path"]):
            (target,) = (each for each in manifests if _identity(each) == _identity(change))
            merged = _merge(target, change)
            target.clear()
            target.update(merged)
    for manifest in manifests:
        for image in kustomization.get("images", []):
            _set_image(manifest, image)
        if "namespace" in kustomization and manifest["kind"] not in _WITHOUT_NAMESPACE:
            manifest["metadata"]["namespace"] = kustomization["namespace"]
    return manifests


def load(path: Path) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def build_by_kubectl(folder: Path) -> list[Manifest] | None:
    """The same by `kubectl kustomize`; None where there is none of today's."""
    program = shutil.which("kubectl")
    if program is None:
        return None
    version = subprocess.run(
        [program, "version", "--client"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"Kustomize Version: v(\d+)", version)
    if found is None or int(found[1]) < _OLDEST_KUSTOMIZE:
        return None
    done = subprocess.run(
        [program, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "kustomize warns"
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def by_name(manifests: list[Manifest]) -> list[Manifest]:
    return sorted(manifests, key=_identity)


def _identity(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _merge(base: Any, change: Any) -> Any:
    if isinstance(base, dict) and isinstance(change, dict):
        return {
            key: _merge(base[key], change[key])
            if key in base and key in change
            else copy.deepcopy(change.get(key, base.get(key)))
            for key in [*base, *(key for key in change if key not in base)]
        }
    if _is_named(base) and _is_named(change):
        changes = {each["name"]: each for each in change}
        merged = [_merge(each, changes.pop(each["name"], {})) for each in base]
        return [*merged, *changes.values()]
    return copy.deepcopy(change)


def _is_named(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and "name" in each for each in value
    )


def _set_image(manifest: Manifest, image: dict[str, str]) -> None:
    spec = manifest.get("spec", {}).get("template", {}).get("spec", {})
    for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
        if container["image"].split(":")[0] == image["name"]:
            name = image.get("newName", image["name"])
            tail = f"@{image['digest']}" if "digest" in image else f":{image['newTag']}"
            container["image"] = name + tail
