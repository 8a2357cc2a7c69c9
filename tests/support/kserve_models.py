"""A check of KServe's objects against the models of its Python client.

The wheel's model files are read, not imported: importing them takes FastAPI, gRPC tools and a
client of Kubernetes. Each lists the type of every attribute, its name in JSON and whether it is
required. Types that KServe has from Kubernetes are checked by the schemas of kubernetes-validate.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

_SCALARS: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "bool": (bool,), "float": (int, float), "object": (object,)
}  # fmt: skip


def problems(manifest: dict[str, Any]) -> list[str]:
    """What KServe's model of a manifest's kind does not have, or has otherwise."""
    version = manifest["apiVersion"].split("/")[-1]
    return list(_check(f"{version[0].upper()}{version[1:]}{manifest['kind']}", manifest, "$"))


def _check(kind: str, value: Any, where: str) -> Iterator[str]:
    listed = re.fullmatch(r"list\[(.+)\]", kind)
    mapped = re.fullmatch(r"dict\(str, (.+)\)", kind)
    if listed or mapped:
        wanted = list if listed else dict
        if not isinstance(value, wanted):
            yield f"{where} is no {wanted.__name__}"
            return
        pairs = enumerate(value) if listed else value.items()
        for key, each in pairs:
            yield from _check((listed or mapped)[1], each, f"{where}[{key}]")  # type: ignore[index]
    elif kind in _SCALARS:
        if not isinstance(value, _SCALARS[kind]) or (kind == "int" and isinstance(value, bool)):
            yield f"{where} is no {kind}"
    elif _model_file(kind) is not None:
        yield from _check_model(kind, value, where)
    else:
        yield from _check_kubernetes(kind, value, where)


def _check_model(kind: str, value: Any, where: str) -> Iterator[str]:
    types, names, required = _model(kind)
    attributes = {name: attribute for attribute, name in names.items()}
    if not isinstance(value, dict):
        yield f"{where} is no object"
        return
    for name in required - set(value):
        yield f"{where} lacks {name}"
    for name, each in value.items():
        if name not in attributes:
            yield f"{where} has {name}, which {kind} does not have"
        else:
            yield from _check(types[attributes[name]], each, f"{where}.{name}")


def _check_kubernetes(kind: str, value: Any, where: str) -> Iterator[str]:
    """Checks an object of Kubernetes' own, such as V1Container."""
    newest = kubernetes_validate.latest_version()
    folder = f"kubernetes-json-schema/v{newest}-local-strict"
    name = kind.removeprefix("V1").lower()
    group = "meta-" if kind == "V1ObjectMeta" else ""
    schema = schema_contents(f"{folder}/{name}-{group}v1.json", newest)
    definitions = Resource.from_contents(schema_contents(f"{folder}/_definitions.json", newest))
    validator = jsonschema.Draft202012Validator(schema, registry=definitions @ Registry())
    for error in validator.iter_errors(value):
        yield f"{where}{error.json_path[1:]}: {error.message}"


@cache
def _model(kind: str) -> tuple[dict[str, str], dict[str, str], set[str]]:
    file = _model_file(kind)
    assert file is not None
    tree = ast.parse(file.read_text())
    (model,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind)
    tables = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in model.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Dict)
    }
    names = tables["attribute_map"]
    # A generated setter refuses None for what is required.
    refused = set(re.findall(r"Invalid value for `(\w+)`, must not be `None`", file.read_text()))
    return tables["openapi_types"], names, {names[each] for each in refused}


def _model_file(kind: str) -> Path | None:
    spec = importlib.util.find_spec("kserve")
    assert spec is not None, "kserve is installed with --no-deps"
    assert spec.submodule_search_locations is not None
    module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()
    file = Path(spec.submodule_search_locations[0]) / "models" / f"{module}.py"
    return file if file.is_file() else None
