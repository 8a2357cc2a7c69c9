"""endcap bundle: files to run a model repository in containers, Kubernetes and KServe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endcap.cli.options import Verbose
from endcap.errors import InvalidArgumentError
from endcap.terminal.console import count
from endcap.terminal.failure import INTERRUPTED, report_errors, say, stopped_by_signals
from endcap.tools.bundle import (
    BundleOptions,
    BundlePlan,
    ModelSource,
    check_output,
    make_plan,
    write_bundle,
)
from endcap.tools.bundle.plan import why_no_cpu

EXAMPLES = """
**Examples**

- `endcap bundle models --output deploy --wheel dist/endcap-0.1.0-cp312-*.whl`

- `endcap bundle models --output deploy --source image --gpu-image registry.example/vision/endcap:7`

- `endcap bundle models --output deploy --source s3://bucket/models --digest aws-cli=sha256:...`

- `endcap bundle model_repository --output deploy --model detect --accept-known-vulnerabilities`

**Exit code**: 0 when all files are written, 2 when none is, with an error message.
"""

_IMAGES = "Images"
_KUBERNETES = "Kubernetes"
_SECURITY = "Security"
_TRACES = "Traces"
_DEFAULTS = BundleOptions()


def bundle(
    repository: Annotated[
        Path, typer.Argument(help="Folder of model folders.", metavar="REPOSITORY")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder to write, which must be missing or empty.",
            metavar="DIR",
            show_default=False,
        ),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Serve this model only, and an ensemble's steps with it; may be repeated. "
            "Default: all but those whose config.pbtxt has the parameter `optional`.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str,
        typer.Option(
            help="Where servers take the models from: volume (mounted), image (copied into the "
            "images) or s3://BUCKET/FOLDER (downloaded when a pod starts).",
            metavar="SOURCE",
        ),
    ] = _DEFAULTS.source.kind.value,
    accept_known_vulnerabilities: Annotated[
        bool,
        typer.Option(
            "--accept-known-vulnerabilities",
            rich_help_panel=_SECURITY,
            help="Write the files for CPUs, too, whose server (release 24.10) has known "
            "vulnerabilities and is open to the network of its containers; and allow such releases "
            "for --triton-release.",
        ),
    ] = False,
    wheel: Annotated[
        Path | None,
        typer.Option(
            help="endcap's wheel, which is copied into DIR/wheels for the images.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=_IMAGES,
        ),
    ] = None,
    triton_release: Annotated[
        str,
        typer.Option(
            help="Release of NVIDIA's Triton image.", metavar="YY.MM", rich_help_panel=_IMAGES
        ),
    ] = _DEFAULTS.triton_release,
    digest: Annotated[
        list[str] | None,
        typer.Option(
            help="Digest of an image of others: triton, debian, prometheus, grafana or aws-cli, "
            "such as triton=sha256:...; may be repeated. Default: it has to be given at each "
            "build.",
            metavar="NAME=DIGEST",
            show_default=False,
            rich_help_panel=_IMAGES,
        ),
    ] = None,
    gpu_image: Annotated[
        str | None,
        typer.Option(
            help="The image of Dockerfile.gpu, as clusters pull it: NAME:TAG or "
            "NAME@sha256:DIGEST. Default: endcap-gpu and endcap's version.",
            metavar="IMAGE",
            show_default=False,
            rich_help_panel=_IMAGES,
        ),
    ] = None,
    cpu_image: Annotated[
        str | None,
        typer.Option(
            help="The image of Dockerfile.cpu, likewise.",
            metavar="IMAGE",
            show_default=False,
            rich_help_panel=_IMAGES,
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option(help="Name of the objects.", metavar="NAME", rich_help_panel=_KUBERNETES),
    ] = _DEFAULTS.name,
    namespace: Annotated[
        str,
        typer.Option(help="Namespace of the objects.", metavar="NAME", rich_help_panel=_KUBERNETES),
    ] = _DEFAULTS.namespace,
    cpus: Annotated[
        int, typer.Option(min=1, help="CPUs that a pod requests.", rich_help_panel=_KUBERNETES)
    ] = _DEFAULTS.cpus,
    min_replicas: Annotated[
        int, typer.Option(min=1, help="The fewest pods.", rich_help_panel=_KUBERNETES)
    ] = _DEFAULTS.min_replicas,
    max_replicas: Annotated[
        int, typer.Option(min=1, help="The most pods.", rich_help_panel=_KUBERNETES)
    ] = _DEFAULTS.max_replicas,
    queue_ms: Annotated[
        int,
        typer.Option(
            min=1,
            help="Mean queue time of a request, in milliseconds, above which pods are added.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = _DEFAULTS.queue_ms,
    trace_url: Annotated[
        str | None,
        typer.Option(
            help="Send traces there by OTLP over HTTP, such as "
            "http://collector.monitoring:4318/v1/traces: of requests whose client sends a trace "
            "context.",
            metavar="URL",
            show_default=False,
            rich_help_panel=_TRACES,
        ),
    ] = None,
    trace_every: Annotated[
        int,
        typer.Option(
            min=0,
            help="Trace one request in N, too; 0 only those with a trace context.",
            metavar="N",
            rich_help_panel=_TRACES,
        ),
    ] = _DEFAULTS.trace_every,
    monitoring_namespace: Annotated[
        str,
        typer.Option(help="Namespace of Prometheus.", metavar="NAME", rich_help_panel=_KUBERNETES),
    ] = _DEFAULTS.monitoring_namespace,
    verbose: Verbose = False,
) -> None:
    """Write files that run a model repository in containers, Kubernetes or KServe.

    Dockerfiles, a Compose file with Prometheus and Grafana, Kubernetes objects for kustomize,
    KServe's objects, Prometheus rules with tests, and a Grafana dashboard. Nothing is started,
    built or sent. The README in the folder has the commands that come next.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        options = BundleOptions(
            name=name,
            namespace=namespace,
            source=ModelSource.parse(source),
            models=tuple(model or ()),
            triton_release=triton_release,
            accept_known_vulnerabilities=accept_known_vulnerabilities,
            gpu_image=gpu_image or _DEFAULTS.gpu_image,
            cpu_image=cpu_image or _DEFAULTS.cpu_image,
            digests=_digests(digest or []),
            wheel=wheel,
            cpus=cpus,
            min_replicas=min_replicas,
            max_replicas=max_replicas,
            queue_ms=queue_ms,
            monitoring_namespace=monitoring_namespace,
            trace_url=trace_url,
            trace_every=trace_every,
        )
        check_output(output, repository)
        plan = make_plan(repository, options)
        paths = write_bundle(plan, output)
        _report(plan, output, len(paths))


def _digests(given: list[str]) -> dict[str, str]:
    digests: dict[str, str] = {}
    for pair in given:
        name, equals, digest = pair.partition("=")
        if not equals or name in digests:
            raise InvalidArgumentError(
                f"--digest is '{pair}'; give NAME=sha256:DIGEST, each name once"
            )
        digests[name] = digest
    return digests


def _report(plan: BundlePlan, output: Path, files: int) -> None:
    needs = plan.needs
    variants = " and ".join(variant.name.upper() for variant in plan.variants)
    print(f"{output}: {count(files, 'file')} for {variants}, {count(len(needs.models), 'model')}")
    print(
        f"a pod: {plan.options.cpus} CPUs, {needs.memory_mib + needs.shared_memory_mib} MiB of "
        f"memory (at most {needs.memory_limit_mib}), {needs.shared_memory_mib} MiB of shared "
        "memory; estimated from the models' files and tensors"
    )
    print(f"Next: {output / 'README.md'}")
    if not plan.options.accept_known_vulnerabilities:
        say(f"endcap: {why_no_cpu()}")
    if plan.options.wheel is None:
        say(
            "endcap: the images need endcap's wheel: copy it to "
            f"{output / 'wheels'} (make wheel), or give --wheel FILE"
        )
