"""Plan of a deployment: what the repository needs, and the command lines of the servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from endcap.server.advisories import find_advisories, first_fixed, summarise
from endcap.server.exposure import restriction_options
from endcap.server.models import check_model_names, choose_models, pool_megabytes
from endcap.server.plan import trace_options
from endcap.server.release import Release, ServerRelease
from endcap.server.settings import ServerPorts, ServerSettings
from endcap.tools.bundle.options import BundleError, BundleOptions, ImageReference, SourceKind
from endcap.triton.installation import OUR_BACKENDS
from endcap.triton.model_folder import ModelFolder, needed_backend, read_repository

# Of the server that `endcap server install` puts into the CPU image.
PACKAGED_RELEASE = "24.10"
# Seconds from the signal to a server until its requests in flight are given up.
EXIT_TIMEOUT_S = 30
# Seconds that a pod still serves for while its address is removed everywhere.
PRE_STOP_S = 10
_UNLOADING_S = 10
GRACE_PERIOD_S = PRE_STOP_S + EXIT_TIMEOUT_S + _UNLOADING_S
ONNXRUNTIME_LINK = "/opt/tritonserver/backends/onnxruntime/endcap_onnxruntime.so"

_MIB = 1 << 20
_SERVER_MIB = 512
_PYTHON_MODEL_MIB = 256
_LEAST_SHARED_MIB = 64  # what container runtimes give without being asked
_WEIGHT_COPIES = 3  # ONNX Runtime on a CPU has them twice, and reads the file
_TENSOR_COPIES = 4  # two batches in flight, each as an input and in a memory arena
_MEMORY_STEP_MIB = 256


@dataclass(frozen=True, kw_only=True)
class RepositoryNeeds:
    """What a server of the repository needs, estimated from its files.

    Attributes:
        models: All models that are served.
        named: The models that the server is told to load; none means all of the repository.
        backends: Backends of the served models.
        python_models: Those of the served models that run in the server's Python.
        model_bytes: Bytes of the served models' files.
        memory_mib: Memory of the process and its stubs, without shared memory.
        shared_memory_mib: Size of /dev/shm.
        cuda_pool_mib: CUDA memory for tensors between models, on each GPU.
    """

    models: tuple[str, ...]
    named: tuple[str, ...]
    backends: tuple[str, ...]
    python_models: tuple[str, ...]
    model_bytes: int
    memory_mib: int
    shared_memory_mib: int
    cuda_pool_mib: int

    @property
    def memory_limit_mib(self) -> int:
        """Memory of a pod, with /dev/shm and temporary files, which count towards it."""
        return 2 * (self.memory_mib + self.shared_memory_mib)

    @property
    def storage_gib(self) -> int:
        """Size of a volume that holds the models twice, for an update beside the old ones."""
        return max(1, -(-2 * self.model_bytes // (1 << 30)))


@dataclass(frozen=True)
class Variant:
    """One of the two servers: NVIDIA's container on a GPU, or endcap's own server on CPUs."""

    name: str  # gpu or cpu
    image: ImageReference

    @property
    def is_gpu(self) -> bool:
        """Whether it runs NVIDIA's container."""
        return self.name == "gpu"


@dataclass(frozen=True)
class BundlePlan:
    """All decisions about a deployment."""

    repository: Path
    options: BundleOptions
    needs: RepositoryNeeds
    variants: tuple[Variant, ...]

    @property
    def release(self) -> Release:
        """Release of NVIDIA's container."""
        return Release.parse(self.options.triton_release)

    def command(self, variant: Variant, folder: str, ports: ServerPorts | None = None) -> list[str]:
        """Return the command line of a server.

        Args:
            variant: Which of the two.
            folder: Of the models, in the container.
            ports: Other than Triton's usual ones.
        """
        ports = ports or ServerPorts()
        if variant.is_gpu:
            return self._triton_command(folder, ports)
        moved = ports != ServerPorts()
        return [
            "endcap",
            "serve",
            folder,
            "--host=0.0.0.0",
            "--accept-known-vulnerabilities",
            *(f"--model={name}" for name in self.needs.named),
            *([f"--http-port={ports.http}", f"--grpc-port={ports.grpc}"] if moved else []),
            "--ready-timeout=600",
            *self._serve_trace_options(),
        ]

    def _serve_trace_options(self) -> list[str]:
        url, every = self.options.trace_url, self.options.trace_every
        if url is None:
            return []
        return [f"--trace-url={url}", *([f"--trace-every={every}"] if every else [])]

    def _triton_command(self, folder: str, ports: ServerPorts) -> list[str]:
        named = self.needs.named
        onnx = "endcap_onnx" in self.needs.backends
        library = f"--backend-config=endcap_onnx,onnxruntime_library={ONNXRUNTIME_LINK}"
        pool = self.needs.cuda_pool_mib * _MIB
        return [
            "tritonserver",
            f"--model-repository={folder}",
            *(["--model-control-mode=explicit"] if named else []),
            *(f"--load-model={name}" for name in named),
            *([library] if onnx else []),
            f"--http-port={ports.http}",
            f"--grpc-port={ports.grpc}",
            f"--metrics-port={ports.metrics}",
            f"--cuda-memory-pool-byte-size=0:{pool}",
            "--exit-on-error=true",
            f"--exit-timeout-secs={EXIT_TIMEOUT_S}",
            *restriction_options(ServerRelease(name="", release=self.release), ServerSettings()),
            *trace_options(_trace_settings(self.options)),
        ]


def make_plan(repository: Path, options: BundleOptions) -> BundlePlan:
    """Read a repository and decide what is written for it.

    Raises:
        BundleError: No server of the files could serve it, or one has known vulnerabilities that
            are not accepted.
        ServerError: The repository cannot be served by any server.
    """
    _check_release(options)
    trace_options(_trace_settings(options))  # raises for what is no address
    models = read_repository(repository)
    chosen, named = _served(models, options.models)
    check_model_names(chosen)
    if not chosen:
        raise BundleError(
            f"all models of {repository} are optional, so that none is served; name some with "
            "--model"
        )
    needs = _needs(chosen, named)
    variants = [Variant("gpu", ImageReference.parse(options.gpu_image, "--gpu-image"))]
    if options.accept_known_vulnerabilities:
        _check_packaged(chosen)
        variants.insert(0, Variant("cpu", ImageReference.parse(options.cpu_image, "--cpu-image")))
    return BundlePlan(repository.resolve(), options, needs, tuple(variants))


def _trace_settings(options: BundleOptions) -> ServerSettings:
    return ServerSettings(trace_url=options.trace_url, trace_every=options.trace_every)


def why_no_cpu() -> str:
    """Return why there are no files for a CPU without --accept-known-vulnerabilities."""
    advisories = find_advisories(Release.parse(PACKAGED_RELEASE))
    return (
        f"files for a CPU are left out: their server, release {PACKAGED_RELEASE}, has "
        f"{summarise(advisories)}, and is open to the network there; give "
        "--accept-known-vulnerabilities to have them, too"
    )


def _check_release(options: BundleOptions) -> None:
    given = f"--triton-release is '{options.triton_release}'"
    try:
        release = Release.parse(options.triton_release)
    except ValueError as error:
        raise BundleError(f"{given}: {error}; give a month such as 26.08") from error
    advisories = find_advisories(release)
    if advisories and not options.accept_known_vulnerabilities:
        raise BundleError(
            f"{given}, which has {summarise(advisories)}, all fixed in {first_fixed(advisories)}; "
            "give that or a later one, or take the risk with --accept-known-vulnerabilities"
        )


def _served(
    models: Sequence[ModelFolder], names: Sequence[str]
) -> tuple[list[ModelFolder], tuple[str, ...]]:
    """Return the models that are served, and those that a server has to be told.

    Without names they are all but the optional ones, and what calls one of these.
    """
    if names:
        chosen = choose_models(models, names)
        return chosen, tuple(model.path.name for model in chosen)
    absent = {model.path.name for model in models if model.is_optional}
    if not absent:
        return [*models], ()
    while callers := {model.path.name for model in models if absent & {*model.steps}} - absent:
        absent |= callers
    kept = [model for model in models if model.path.name not in absent]
    return kept, tuple(model.path.name for model in kept)


def _check_packaged(models: Sequence[ModelFolder]) -> None:
    """Raise BundleError for a backend that the packaged server does not have."""
    for model in models:
        backend = needed_backend(model)
        if backend not in ("", "python", *OUR_BACKENDS):
            raise BundleError(
                f"model '{model.path.name}' runs in backend '{backend}', which the server of the "
                "CPU image does not have; leave --accept-known-vulnerabilities out for the GPU "
                "files alone, or run the network in endcap_onnx"
            )


def _needs(models: Sequence[ModelFolder], named: tuple[str, ...]) -> RepositoryNeeds:
    in_python = [model for model in models if model.runs_python]
    model_bytes = sum(size for model in models for size in _file_sizes(model.path))
    weights = _WEIGHT_COPIES * model_bytes
    tensors = _TENSOR_COPIES * sum(model.tensor_bytes for model in models)
    memory = _SERVER_MIB + _PYTHON_MODEL_MIB * len(in_python) + _mib(weights + tensors)
    shared = sum(max(_LEAST_SHARED_MIB, _mib(2 * model.tensor_bytes)) for model in in_python)
    return RepositoryNeeds(
        models=tuple(model.path.name for model in models),
        named=named,
        backends=tuple(sorted({needed_backend(model) for model in models} - {""})),
        python_models=tuple(model.path.name for model in models if model.uses_server_python),
        model_bytes=model_bytes,
        memory_mib=-(-memory // _MEMORY_STEP_MIB) * _MEMORY_STEP_MIB,
        shared_memory_mib=max(_LEAST_SHARED_MIB, shared),
        cuda_pool_mib=pool_megabytes([*models]),
    )


def _file_sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.stat().st_size


def _mib(size: int) -> int:
    return -(-size // _MIB)


def is_copied(plan: BundlePlan) -> bool:
    """Return whether the models are a part of the images, and of the written files."""
    return plan.options.source.kind is SourceKind.image
