"""Options of deployment files, and their checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from endcap._version import __version__
from endcap.errors import EndcapError

# Images of others, whose content a digest names, and the variables for it. None is known here: one
# that is not given has to be given at each build, but for that of aws-cli, which Kubernetes pulls.
DIGESTED = {
    "triton": "TRITON_DIGEST",
    "debian": "DEBIAN_DIGEST",
    "prometheus": "PROMETHEUS_DIGEST",
    "grafana": "GRAFANA_DIGEST",
    "aws-cli": "AWS_CLI_DIGEST",
}

_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IMAGE = re.compile(
    r"(?P<name>(?:[a-z0-9][a-z0-9.-]*(?::\d+)?/)?[a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_./-]*)?")


class BundleError(EndcapError, ValueError):
    """Deployment files cannot be made; the message says why, and what to do."""


class SourceKind(str, Enum):
    """Where the server's models come from."""

    volume = "volume"
    image = "image"
    s3 = "s3"


@dataclass(frozen=True)
class ModelSource:
    """Where the server's models come from; location: of `s3`, such as s3://bucket/models."""

    kind: SourceKind = SourceKind.volume
    location: str = ""

    @classmethod
    def parse(cls, text: str) -> ModelSource:
        """Read "volume", "image" or "s3://BUCKET/FOLDER".

        Raises:
            BundleError: The text is none of these.
        """
        if text in (SourceKind.volume.value, SourceKind.image.value):
            return cls(SourceKind(text))
        if _S3.fullmatch(text):
            return cls(SourceKind.s3, text.rstrip("/"))
        raise BundleError(
            f"--source is {text!r}; give volume (mounted), image (copied into the images) or "
            "s3://BUCKET/FOLDER, with letters, digits and ._- in its names"
        )


@dataclass(frozen=True)
class ImageReference:
    """An image as kustomize takes it."""

    name: str
    tag: str
    digest: str

    @classmethod
    def parse(cls, text: str, option: str) -> ImageReference:
        """Read NAME[:TAG][@sha256:DIGEST].

        Raises:
            BundleError: The text is something else.
        """
        match = _IMAGE.fullmatch(text)
        if match is None:
            raise BundleError(
                f"{option} is {text!r}; give an image as NAME:TAG or NAME@sha256:DIGEST, such as "
                "registry.example/vision/endcap-gpu:1"
            )
        return cls(match["name"], match["tag"] or "", match["digest"] or "")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}{'@' if self.digest else ''}{self.digest}"


@dataclass(frozen=True, kw_only=True)
class BundleOptions:
    """What a user has decided about deployment files.

    Attributes:
        name: Of the Kubernetes objects; a DNS label.
        namespace: Of the Kubernetes objects.
        source: Where the server's models come from.
        models: The only models that are served; none named means all.
        triton_release: Of NVIDIA's container, such as 26.08.
        accept_known_vulnerabilities: Write files for servers with known vulnerabilities, among them
            those of the CPU image, whose packaged server has some.
        gpu_image: The image made by Dockerfile.gpu, as Kubernetes pulls it.
        cpu_image: The image made by Dockerfile.cpu, likewise.
        digests: Digests of base images, by their names in DIGESTED.
        wheel: File of endcap's wheel, which is copied.
        cpus: CPUs that a pod requests.
        min_replicas: The fewest pods.
        max_replicas: The most pods.
        queue_ms: Mean queue time of a request above which pods are added.
        monitoring_namespace: Namespace of Prometheus, which may read the metrics.
        trace_url: Receiver of traces, by OTLP over HTTP; None sends none.
        trace_every: Trace one request in so many, too; 0 only those with a trace context.
    """

    name: str = "endcap"
    namespace: str = "endcap"
    source: ModelSource = field(default_factory=ModelSource)
    models: tuple[str, ...] = ()
    triton_release: str = "26.08"
    accept_known_vulnerabilities: bool = False
    gpu_image: str = f"endcap-gpu:{__version__}"
    cpu_image: str = f"endcap-cpu:{__version__}"
    digests: Mapping[str, str] = field(default_factory=dict)
    wheel: Path | None = None
    cpus: int = 4
    min_replicas: int = 2
    max_replicas: int = 8
    queue_ms: int = 20
    monitoring_namespace: str = "monitoring"
    trace_url: str | None = None
    trace_every: int = 0

    @property
    def trace_port(self) -> int | None:
        """The port of the receiver of traces; None without one."""
        if self.trace_url is None:
            return None
        url = urlsplit(self.trace_url)
        return url.port or (443 if url.scheme == "https" else 80)

    def __post_init__(self) -> None:
        for option in ("name", "namespace", "monitoring_namespace"):
            value = getattr(self, option)
            if not _DNS_LABEL.fullmatch(value):
                raise BundleError(
                    f"--{option.replace('_', '-')} is {value!r}; give at most 40 lowercase "
                    "letters, digits and hyphens, a letter first"
                )
        ImageReference.parse(self.gpu_image, "--gpu-image")
        ImageReference.parse(self.cpu_image, "--cpu-image")
        for name, digest in self.digests.items():
            if name not in DIGESTED or not _DIGEST.fullmatch(digest):
                raise BundleError(
                    f"--digest is '{name}={digest}'; give NAME=sha256: and 64 hexadecimal digits, "
                    f"NAME being one of {', '.join(DIGESTED)}"
                )
        if self.trace_url is not None and "@" in urlsplit(self.trace_url).netloc:
            raise BundleError(
                "--trace-url holds a name or a password, which the files would show; give the "
                "address of a collector that needs none"
            )
        if self.source.kind is SourceKind.s3 and "aws-cli" not in self.digests:
            raise BundleError(
                f"--source is '{self.source.location}', which pods download with the image "
                "amazon/aws-cli; give --digest aws-cli=sha256:..., the digest that `docker buildx "
                "imagetools inspect amazon/aws-cli:TAG` prints"
            )
        if self.max_replicas < self.min_replicas:
            raise BundleError(
                f"--max-replicas is {self.max_replicas} and --min-replicas {self.min_replicas}; "
                "give a maximum that is no smaller"
            )
        if self.wheel is not None and not (
            self.wheel.is_file() and self.wheel.name.startswith("endcap-")
        ):
            raise BundleError(
                f"--wheel is {str(self.wheel)!r}; give a file endcap-VERSION-*.whl, which "
                "`make wheel` makes in dist/"
            )
