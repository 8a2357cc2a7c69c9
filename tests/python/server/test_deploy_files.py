"""Deployment files: Kubernetes and KServe objects, Compose, and the images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from endcap.server.release import ServerRelease, restriction_options
from endcap.server.settings import ServerSettings
from endcap.triton.installation import OUR_BACKENDS
from tests.support.deploy_files import DEPLOY, image_command

VERSIONS = kubernetes_validate.utils.all_versions()
NEWEST = sorted({tuple(map(int, each.split(".")[:2])) for each in VERSIONS})[-5:]
# Objects of the Prometheus operator: kubernetes-validate has no schemas of them.
OPERATOR = {"ServiceMonitor"}
Manifest = dict[str, Any]


def load(path: Path) -> list[Manifest]:
    """Return the objects of a file, or of the files of a folder as `kubectl apply -f` reads it."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [each for file in files for each in yaml.safe_load_all(file.read_text()) if each]


@pytest.fixture(params=["cpu", "gpu"])
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    kubernetes = DEPLOY / "kubernetes"
    return load(kubernetes) + load(kubernetes / request.param)


@pytest.mark.parametrize("version", NEWEST, ids=lambda each: "{}.{}".format(*each))
def test_manifests_fit_the_schemas(manifests: list[Manifest], version: tuple[int, int]) -> None:
    assert len(NEWEST) == 5
    checked = [each for each in manifests if each["kind"] not in OPERATOR]
    assert len(checked) >= 6
    for manifest in checked:
        text = "{}.{}.0".format(*version)
        used = kubernetes_validate.validate(manifest, text, strict=True)
        assert used == "{}.{}".format(*version)


def test_pods_are_restricted(manifests: list[Manifest]) -> None:
    """What the level `restricted` of the Pod Security Standards asks for, and a read-only root."""
    namespace = _only(manifests, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = _pod(_only(manifests, "Deployment"))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    kinds = {key for volume in pod["volumes"] for key in volume} - {"name"}
    assert kinds <= {"emptyDir", "persistentVolumeClaim"}


def test_the_selectors_find_the_pods(manifests: list[Manifest]) -> None:
    deployment = _only(manifests, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels
    spread = _pod(deployment)["topologySpreadConstraints"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        _only(manifests, "Service")["spec"]["selector"],
        _only(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        _only(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(each["labelSelector"]["matchLabels"] for each in spread),
    ):
        assert selector == labels
    service = _only(manifests, "Service")
    monitor = _only(manifests, "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert monitor["spec"]["jobLabel"] in service["metadata"]["labels"]
    ports = {port["name"] for port in service["spec"]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports
    target = _only(manifests, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])


def test_a_pod_has_time_to_end(manifests: list[Manifest]) -> None:
    pod = _pod(_only(manifests, "Deployment"))
    (server,) = pod["containers"]
    sleep = server["lifecycle"]["preStop"]["sleep"]["seconds"]
    options = [each for each in server["args"] if each.startswith("--exit-timeout-secs=")]
    # `endcap serve` gives its server 25 s of the 30 s that a stop may take.
    waits = int(options[0].split("=")[1]) if options else 30
    assert sleep > 0
    assert pod["terminationGracePeriodSeconds"] >= sleep + waits + 5


def test_memory_counts_shared_memory(manifests: list[Manifest]) -> None:
    deployment = _only(manifests, "Deployment")
    volumes = {volume["name"]: volume for volume in _pod(deployment)["volumes"]}
    shared = volumes["shared-memory"]["emptyDir"]
    assert shared["medium"] == "Memory"
    resources = _server(deployment)["resources"]
    requested, limit = resources["requests"]["memory"], resources["limits"]["memory"]
    assert _mib(shared["sizeLimit"]) < _mib(requested) < _mib(limit)


def kubernetes_server(kind: str) -> dict[str, Any]:
    return _server(_only(load(DEPLOY / "kubernetes" / kind), "Deployment"))


def test_clients_cannot_control_the_server() -> None:
    """The GPU server closes what `endcap serve` closes; the CPU server is `endcap serve`."""
    closed = restriction_options(ServerRelease(name="", version=None), ServerSettings())
    assert closed
    # In YAML and in the Dockerfile the key's line breaks are escapes of a quoted string.
    assert kubernetes_server("gpu")["args"][-len(closed) :] == closed
    cpu = kubernetes_server("cpu")
    assert [*cpu["command"], *cpu["args"][:1]] == ["endcap", "serve"]


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_all_files_start_the_server_with_the_same_command(kind: str) -> None:
    image = image_command(kind)
    server = kubernetes_server(kind)
    assert [*server["command"], *server["args"]] == image
    (container,) = _only(load(DEPLOY / "kserve" / f"{kind}.yaml"), "ServingRuntime")["spec"][
        "containers"
    ]
    in_kserve = [*container["command"], *container["args"]]
    assert in_kserve[: len(image)] == [each.replace("/models", "/mnt/models") for each in image]
    assert in_kserve[len(image) :] == ["--http-port=8080", "--grpc-port=9000"]


def test_the_autoscaler_reads_what_the_rules_record() -> None:
    scaler = _only(load(DEPLOY / "kubernetes"), "HorizontalPodAutoscaler")
    names = [metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"]]
    assert names == ["endcap_queue_seconds_per_request", "endcap_refused_request_ratio"]
    adapter = yaml.safe_load((DEPLOY / "prometheus" / "adapter.yaml").read_text())
    custom = adapter["rules"]["custom"]
    assert [rule["name"]["as"] for rule in custom] == names
    assert [rule["seriesQuery"].partition("{")[0] for rule in custom] == names
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())
    recorded = {rule.get("record") for group in rules["groups"] for rule in group["rules"]}
    assert set(names) <= recorded


@pytest.fixture(params=["cpu", "gpu"])
def kserve(request: pytest.FixtureRequest) -> list[Manifest]:
    return load(DEPLOY / "kserve" / f"{request.param}.yaml")


def test_the_service_finds_its_runtime(kserve: list[Manifest]) -> None:
    runtime = _only(kserve, "ServingRuntime")
    model = _only(kserve, "InferenceService")["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    formats = {each["name"] for each in runtime["spec"]["supportedModelFormats"]}
    assert model["modelFormat"]["name"] in formats
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    (container,) = runtime["spec"]["containers"]
    assert container["name"] == "kserve-container", "KServe looks for this name"
    (claim,) = [
        each for each in load(DEPLOY / "kubernetes") if each["kind"] == "PersistentVolumeClaim"
    ]
    assert model["storageUri"] == f"pvc://{claim['metadata']['name']}/"


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_images_run_as_an_ordinary_user_with_a_health_check(kind: str) -> None:
    text = (DEPLOY / f"Dockerfile.{kind}").read_text()
    instructions = re.findall(r"^([A-Z]+) ", text, re.MULTILINE)
    assert {"HEALTHCHECK", "USER", "ENTRYPOINT", "CMD", "STOPSIGNAL"} <= set(instructions)
    (user,) = re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
    assert min(map(int, user)) > 0


def test_the_gpu_image_has_all_backends() -> None:
    text = (DEPLOY / "Dockerfile.gpu").read_text()
    for backend in OUR_BACKENDS:
        assert f"endcap/backends/{backend}/ /opt/tritonserver/backends/{backend}/" in text


def test_compose_opens_ports_to_this_machine_only() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"server-cpu", "server-gpu", "prometheus", "grafana"}
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for volume in service["volumes"]:
            source = volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists(), source
    server = services["server-cpu"]
    assert server["volumes"][0]["read_only"] is True
    (alias,) = server["networks"]["default"]["aliases"]
    prometheus = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (scrape,) = prometheus["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": [f"{alias}:8002"]}]


def _only(manifests: list[Manifest], kind: str) -> Manifest:
    (found,) = (each for each in manifests if each["kind"] == kind)
    return found


def _pod(deployment: Manifest) -> dict[str, Any]:
    return dict(deployment["spec"]["template"]["spec"])


def _server(deployment: Manifest) -> dict[str, Any]:
    (server,) = _pod(deployment)["containers"]
    assert isinstance(server, dict)
    return server


def _mib(text: str) -> int:
    units = {"Mi": 1, "Gi": 1024}
    return int(text[:-2]) * units[text[-2:]]
