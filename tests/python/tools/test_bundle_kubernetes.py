"""Kubernetes and KServe objects of `endcap bundle`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kserve_models
import kubernetes_validate
import pytest
import yaml
from cli_runs import endcap
from kustomized import Manifest, build, build_by_kubectl, by_name, load

REPOSITORY = Path(__file__).resolve().parents[3] / "model_repository"
VERSIONS = kubernetes_validate.utils.all_versions()
NEWEST = sorted({tuple(map(int, each.split(".")[:2])) for each in VERSIONS})[-5:]
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
SOURCES = {
    "volume": ["--source", "volume"],
    "image": ["--source", "image"],
    "s3": ["--source", "s3://bucket/models", "--digest", f"aws-cli={DIGEST}"],
}
# Objects of the Prometheus operator: kubernetes-validate has no schemas of them.
OPERATOR = {"ServiceMonitor", "PrometheusRule"}


@pytest.fixture(scope="module", params=SOURCES)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / request.param
    result = endcap(
        "bundle", REPOSITORY, "--output", folder, "--model", "detect", "--namespace", "vision",
        "--accept-known-vulnerabilities", "--gpu-image", f"registry.example:5000/a/b@{DIGEST}",
        *SOURCES[request.param],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(params=["cpu", "gpu"])
def manifests(request: pytest.FixtureRequest, bundle: Path) -> list[Manifest]:
    return build(bundle / "kubernetes" / "overlays" / request.param)


def test_the_overlays_are_what_kustomize_makes(bundle: Path) -> None:
    for folder in sorted((bundle / "kubernetes").glob("*/*/kustomization.yaml")):
        made = build_by_kubectl(folder.parent)
        if made is None:
            pytest.skip("no kubectl with kustomize 5 or later on PATH")
        assert by_name(made) == by_name(build(folder.parent))


@pytest.mark.parametrize("version", NEWEST, ids=lambda each: "{}.{}".format(*each))
def test_manifests_fit_the_schemas(manifests: list[Manifest], version: tuple[int, int]) -> None:
    assert len(NEWEST) == 5
    checked = [each for each in manifests if each["kind"] not in OPERATOR]
    assert len(checked) >= 6
    for manifest in checked:
        text = "{}.{}.0".format(*version)
        used = kubernetes_validate.validate(manifest, text, strict=True)
        assert used == "{}.{}".format(*version)


def test_the_schemas_see_a_mistake(manifests: list[Manifest]) -> None:
    deployment = _only(manifests, "Deployment")
    _server(deployment)["readinessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinessProb"):
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)


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


def test_probes_ask_for_health(manifests: list[Manifest]) -> None:
    server = _server(_only(manifests, "Deployment"))
    paths = {name: server[name]["httpGet"]["path"] for name in server if name.endswith("Probe")}
    assert paths == {
        "startupProbe": "/v2/health/ready",
        "livenessProbe": "/v2/health/live",
        "readinessProbe": "/v2/health/ready",
    }
    assert {port["name"]: port["containerPort"] for port in server["ports"]} == {
        "http": 8000, "grpc": 8001, "metrics": 8002
    }  # fmt: skip


def test_memory_counts_shared_memory(manifests: list[Manifest]) -> None:
    deployment = _only(manifests, "Deployment")
    volumes = {volume["name"]: volume for volume in _pod(deployment)["volumes"]}
    shared = volumes["shared-memory"]["emptyDir"]
    assert shared["medium"] == "Memory"
    resources = _server(deployment)["resources"]
    requested, limit = resources["requests"]["memory"], resources["limits"]["memory"]
    assert _mib(shared["sizeLimit"]) < _mib(requested) < _mib(limit)


def test_clients_cannot_control_the_server(bundle: Path) -> None:
    """The GPU server closes what `endcap serve` closes; the CPU server is `endcap serve`."""
    gpu = _server(_only(build(bundle / "kubernetes" / "overlays" / "gpu"), "Deployment"))
    for option in ("--http-restricted-api=", "--grpc-restricted-protocol="):
        (given,) = (each for each in gpu["args"] if each.startswith(option))
        apis, _, key = given.removeprefix(option).partition(":")
        assert set(apis.split(",")) == {"model-repository", "trace", "logging", "shared-memory"}
        assert "\r\n" in key
    cpu = _server(_only(build(bundle / "kubernetes" / "overlays" / "cpu"), "Deployment"))
    assert [*cpu["command"], *cpu["args"][:1]] == ["endcap", "serve"]


def test_a_gpu_is_requested_for_the_gpu_alone(bundle: Path) -> None:
    def limits(name: str) -> dict[str, Any]:
        deployment = _only(build(bundle / "kubernetes" / "overlays" / name), "Deployment")
        return dict(_server(deployment)["resources"]["limits"])

    assert limits("gpu")["nvidia.com/gpu"] == 1
    assert set(limits("cpu")) == {"memory"}


def test_images_are_the_given_ones(bundle: Path) -> None:
    deployment = _only(build(bundle / "kubernetes" / "overlays" / "gpu"), "Deployment")
    assert _server(deployment)["image"] == f"registry.example:5000/a/b@{DIGEST}"
    for container in _pod(deployment).get("initContainers", []):
        assert container["image"] == f"amazon/aws-cli@{DIGEST}"


def test_models_come_from_where_the_option_says(bundle: Path) -> None:
    made = build(bundle / "kubernetes" / "overlays" / "cpu")
    pod = _pod(_only(made, "Deployment"))
    sources = {volume["name"]: volume for volume in pod["volumes"]}.get("models")
    claims = [each for each in made if each["kind"] == "PersistentVolumeClaim"]
    if bundle.name == "volume":
        (claim,) = claims
        assert sources is not None
        assert sources["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    elif bundle.name == "s3":
        assert sources is not None
        assert "s3://bucket/models" in pod["initContainers"][0]["args"]
        assert not claims
    else:
        assert sources is None
        assert not claims
        assert (bundle / "models" / "detect" / "config.pbtxt").is_file()
        assert (bundle / "models" / "detector" / "1" / "model.onnx").is_file()


def test_the_autoscaler_reads_what_the_rules_record(bundle: Path) -> None:
    scaler = _only(build(bundle / "kubernetes" / "overlays" / "gpu"), "HorizontalPodAutoscaler")
    names = [metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"]]
    assert names == ["endcap_queue_seconds_per_request", "endcap_refused_request_ratio"]
    adapter = yaml.safe_load((bundle / "monitoring" / "prometheus-adapter.yaml").read_text())
    custom = adapter["rules"]["custom"]
    assert [rule["name"]["as"] for rule in custom] == names
    assert [rule["seriesQuery"].partition("{")[0] for rule in custom] == names
    rules = yaml.safe_load((bundle / "monitoring" / "rules.yaml").read_text())
    recorded = {rule.get("record") for group in rules["groups"] for rule in group["rules"]}
    assert set(names) <= recorded


def test_the_operator_gets_the_same_rules(bundle: Path) -> None:
    rules = yaml.safe_load((bundle / "monitoring" / "rules.yaml").read_text())
    (operator,) = load(bundle / "kubernetes" / "monitoring" / "prometheus-rule.yaml")
    assert operator["spec"] == rules


@pytest.fixture(params=["cpu", "gpu"])
def kserve(request: pytest.FixtureRequest, bundle: Path) -> list[Manifest]:
    return build(bundle / "kubernetes" / "kserve" / request.param)


def test_kserve_has_models_of_all_fields(kserve: list[Manifest]) -> None:
    assert {each["kind"] for each in kserve} == {"ServingRuntime", "InferenceService"}
    for manifest in kserve:
        assert kserve_models.problems(manifest) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("spec", "multiModels"), True, "has multiModels"),
        (("spec", "multiModel"), "no", "multiModel is no bool"),
        (("spec", "containers"), [{"name": "a", "port": 1}], "port"),
    ],
)
def test_the_models_see_a_mistake(
    kserve: list[Manifest], path: tuple[str, str], value: Any, problem: str
) -> None:
    runtime = _only(kserve, "ServingRuntime")
    runtime[path[0]][path[1]] = value
    assert problem in "\n".join(kserve_models.problems(runtime))


def test_the_service_finds_its_runtime(kserve: list[Manifest], bundle: Path) -> None:
    runtime = _only(kserve, "ServingRuntime")
    model = _only(kserve, "InferenceService")["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    formats = {each["name"] for each in runtime["spec"]["supportedModelFormats"]}
    assert model["modelFormat"]["name"] in formats
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    (container,) = runtime["spec"]["containers"]
    assert container["name"] == "kserve-container", "KServe looks for this name"
    arguments = json.dumps(container["args"])
    if bundle.name == "image":
        assert "storageUri" not in model
        assert "/models" in arguments
    else:
        assert model["storageUri"].startswith({"volume": "pvc://", "s3": "s3://"}[bundle.name])
        assert "/mnt/models" in arguments, "where KServe puts them"
    assert "--http-port=8080" in container["args"]


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
    assert text.endswith("Mi")
    return int(text.removesuffix("Mi"))
