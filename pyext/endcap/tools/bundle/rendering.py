"""Texts of deployment files, made from a plan by the templates."""

from __future__ import annotations

import importlib
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from endcap._system.pip_commands import install_command
from endcap._version import __version__
from endcap.server.settings import ServerPorts
from endcap.tools.bundle import plan as plans
from endcap.tools.bundle.options import DIGESTED, BundleError, SourceKind
from endcap.tools.bundle.plan import BundlePlan, Variant

_TEMPLATES = Path(__file__).resolve().parent / "templates"
# KServe's ports of a predictor.
_KSERVE_PORTS = ServerPorts(http=8080, grpc=9000)
_KSERVE_MODELS = "/mnt/models"  # where it mounts what storageUri names
_MODELS = "/models"
# No user has it, in both base images.
_USER_ID = 65532
# Scrapes of Prometheus; the rules' shortest rate has four of them.
_SCRAPE_INTERVAL_S = 15

_COMMON = {
    "README.md": "README.md.j2",
    ".dockerignore": "dockerignore.j2",
    ".env": "env.j2",
    "compose.yaml": "compose.yaml.j2",
    "wheels/README.md": "wheels.md.j2",
    "sbom/image_sbom.py": "image_sbom.py",
    "haproxy/haproxy.cfg": "haproxy.cfg.j2",
    "kubernetes/base/kustomization.yaml": "base/kustomization.yaml.j2",
    "kubernetes/base/deployment.yaml": "base/deployment.yaml.j2",
    "kubernetes/base/service.yaml": "base/service.yaml.j2",
    "kubernetes/base/disruption-budget.yaml": "base/disruption-budget.yaml.j2",
    "kubernetes/base/autoscaler.yaml": "base/autoscaler.yaml.j2",
    "kubernetes/base/network-policy.yaml": "base/network-policy.yaml.j2",
    "kubernetes/base/namespace.yaml": "base/namespace.yaml.j2",
    "kubernetes/monitoring/kustomization.yaml": "monitoring/kustomization.yaml.j2",
    "kubernetes/monitoring/service-monitor.yaml": "monitoring/service-monitor.yaml.j2",
    "kubernetes/monitoring/prometheus-rule.yaml": "monitoring/prometheus-rule.yaml.j2",
    "monitoring/prometheus.yml": "prometheus.yml.j2",
    "monitoring/rules.yaml": "rules.yaml",
    "monitoring/rules_test.yaml": "rules_test.yaml",
    "monitoring/prometheus-adapter.yaml": "prometheus-adapter.yaml.j2",
    "monitoring/grafana/dashboards/endcap.json": "dashboard.json",
    "monitoring/grafana/provisioning/dashboards/endcap.yaml": "grafana-dashboards.yaml.j2",
    "monitoring/grafana/provisioning/datasources/prometheus.yaml": "grafana-datasources.yaml.j2",
}
# Of each variant; `{}` stands for its name.
_OF_VARIANT = {
    "kubernetes/overlays/{}/kustomization.yaml": "overlay/kustomization.yaml.j2",
    "kubernetes/overlays/{}/deployment.yaml": "overlay/deployment.yaml.j2",
    "kubernetes/kserve/{}/kustomization.yaml": "kserve/kustomization.yaml.j2",
    "kubernetes/kserve/{}/serving-runtime.yaml": "kserve/serving-runtime.yaml.j2",
    "kubernetes/kserve/{}/inference-service.yaml": "kserve/inference-service.yaml.j2",
}
_VERBATIM = (".yaml", ".json", ".py")  # not templates: they have braces of their own
# What makes the images' bill of materials, and where that lies in them.
_SBOM_TOOL = "cyclonedx-bom==7.5.0"
SBOM_PATH = "/usr/share/doc/endcap/sbom.cdx.json"


def render(plan: BundlePlan) -> dict[str, str]:
    """Return the texts by their path in the output folder.

    Raises:
        BundleError: Jinja2 is not installed.
    """
    environment = _environment()
    context = _context(plan)
    texts = {}
    files = dict(_COMMON)
    if plan.options.source.kind is SourceKind.volume:
        files["kubernetes/base/volume-claim.yaml"] = "base/volume-claim.yaml.j2"
    for path, template in files.items():
        if template.endswith(_VERBATIM):
            texts[path] = (_TEMPLATES / template).read_text(encoding="utf-8")
        else:
            texts[path] = environment.get_template(template).render(context)
    for variant in plan.variants:
        given = {**context, **_variant_context(plan, variant)}
        name = f"Dockerfile.{variant.name}"
        texts[name] = environment.get_template(f"{name}.j2").render(given)
        for path, template in _OF_VARIANT.items():
            texts[path.format(variant.name)] = environment.get_template(template).render(given)
    return texts


def _environment() -> Any:
    try:
        jinja2 = importlib.import_module("jinja2")
    except ImportError as error:
        raise BundleError(
            f"writing deployment files takes jinja2, which cannot be imported ({error}); run "
            f"`{install_command('init')}`"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # YAML; `quoted` is for it
    )
    environment.filters |= {
        "quoted": _quoted,
        "compose": lambda value: _quoted(value).replace("$", "$$"),
        "indented": lambda text, width: textwrap.indent(text, " " * width),
    }
    return environment


def _quoted(value: object) -> str:
    """Return a text or a list as JSON has it, which YAML reads, and so do Dockerfiles."""
    return json.dumps(value, ensure_ascii=False)


def _context(plan: BundlePlan) -> Mapping[str, Any]:
    options = plan.options
    return {
        "version": __version__,
        "name": options.name,
        "namespace": options.namespace,
        "options": options,
        "needs": plan.needs,
        "variants": plan.variants,
        "source": options.source.kind.value,
        "location": options.source.location,
        "repository": str(plan.repository),
        "models_folder": _MODELS,
        "digests": {argument: options.digests.get(name, "") for name, argument in DIGESTED.items()},
        "labels": {
            "app.kubernetes.io/name": "endcap",
            "app.kubernetes.io/instance": options.name,
        },
        "user_id": _USER_ID,
        "ports": ServerPorts(),
        "sbom_tool": _SBOM_TOOL,
        "sbom_path": SBOM_PATH,
        "exit_timeout_s": plans.EXIT_TIMEOUT_S,
        "pre_stop_s": plans.PRE_STOP_S,
        "grace_period_s": plans.GRACE_PERIOD_S,
        "packaged_release": plans.PACKAGED_RELEASE,
        "onnxruntime_link": plans.ONNXRUNTIME_LINK,
        "outwards": _outward_ports(plan),
        "scrape_interval_s": _SCRAPE_INTERVAL_S,
        "rules": (_TEMPLATES / "rules.yaml").read_text(encoding="utf-8"),
    }


def _outward_ports(plan: BundlePlan) -> list[int]:
    """Return the TCP ports that pods connect to."""
    of_models = [443] if plan.options.source.kind is SourceKind.s3 else []
    of_traces = [] if plan.options.trace_port is None else [plan.options.trace_port]
    return sorted({*of_models, *of_traces})


def _variant_context(plan: BundlePlan, variant: Variant) -> Mapping[str, Any]:
    is_mounted = plan.options.source.kind is not SourceKind.image
    kserve_folder = _KSERVE_MODELS if is_mounted else _MODELS
    return {
        "variant": variant,
        "command": plan.command(variant, _MODELS),
        "kserve_command": plan.command(variant, kserve_folder, _KSERVE_PORTS),
        "kserve_ports": _KSERVE_PORTS,
    }
