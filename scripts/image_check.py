"""Builds the images of `endcap bundle` as folders, runs them, and sends the demo's requests.

python scripts/image_check.py --wheel dist/endcap-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl

For machines without a container runtime. The instructions of Dockerfile.cpu are carried out in a
root file system that mmdebstrap makes of Debian's packages, in place of the image debian:12-slim;
those of Dockerfile.gpu in one with the packaged server and ONNX Runtime where NVIDIA's image has
its own, so that they are tried, and not NVIDIA's image or a GPU. The servers run there as the
images' user, without capabilities, on a read-only root. Needs root, a network for Debian's and
Python's packages, and Debian's packages mmdebstrap and util-linux. Ports 8000 to 8002 have to be
free.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import check_wheel  # beside this file, as the next one
from image_contents import account, check_bill

from endcap.client import DetectionClient
from endcap.tools.bundle import BundleOptions, make_plan, write_bundle
from endcap.tools.bundle.plan import GRACE_PERIOD_S, PRE_STOP_S
from endcap.tools.bundle.rendering import SBOM_PATH

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = ROOT / "model_repository"
SAMPLES = sorted((REPOSITORY / "detect" / "samples").glob("*.jpg"))
TRITON = "nvcr.io/nvidia/tritonserver"
DISTRIBUTION = "bookworm"  # Debian 12
BASE = "Debian 12 by mmdebstrap, as slim as debian:12-slim"
# What mmdebstrap installs and debian:12-slim does without: usr-is-merged is in its place.
USRMERGE = (
    "usrmerge perl perl-modules-5.36 libperl5.36 libfile-find-rule-perl libnumber-compare-perl "
    "libtext-glob-perl libgdbm6 libgdbm-compat4"
)
# Debian's slim image leaves these out, and apt keeps no caches there.
SLIM = ("doc/*", "groff/*", "info/*", "linda/*", "lintian/*", "locale/*", "man/*")
COPYRIGHT = "doc/*/copyright"
NO_CACHES = ('Dir::Cache::pkgcache ""', 'Dir::Cache::srcpkgcache ""')
DIGEST = "sha256:" + 64 * "0"  # of no image: mmdebstrap's folder stands for it
HTTP_PORT, GRPC_PORT = 8000, 8001
READY_WITHIN_S = 120
MIB = 1 << 20
# Of an image for CPUs without Python models.
LARGEST_BYTES = 400_000_000
PACKAGES = "opt/endcap/lib/python3*/site-packages"
# How pip reaches its index here; a copy of the certificates is in the folder during a RUN.
_FOR_BUILDS = re.compile(r"PIP_(?!FIND_LINKS|CONFIG)\w+|\w+_proxy|\w+_PROXY|no_proxy", re.ASCII)
_CERTIFICATES = "etc/build-certificates.pem"
_ON_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_PREPARE_RUN = (
    'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
)
# Read-only root, the models, and what the Kubernetes objects mount.
_PREPARE_SERVER = """
mount --bind "$0" "$0" && cd "$0" &&
mount --bind "$1" models && mount -o remount,bind,ro,nosuid,nodev models &&
mount -t proc -o nosuid,nodev,noexec proc proc &&
mount -t tmpfs -o mode=755,nosuid tmpfs dev && mkdir dev/shm &&
for name in null zero random urandom; do
  touch dev/$name && mount --bind /dev/$name dev/$name || exit
done &&
mount -t tmpfs -o size=1g,mode=777,nosuid,nodev tmpfs tmp &&
mount -t tmpfs -o size="$2"m,mode=777,nosuid,nodev,noexec tmpfs dev/shm &&
mount -o remount,bind,ro . && shift 2 && exec chroot . "$@"
"""


class CheckError(Exception):
    """The image cannot be built, or does not do what it is for."""


@dataclass
class Stage:
    """A stage of the Dockerfile: its root file system and what its instructions have set."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health_check: list[str] = field(default_factory=list)


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and rest of each instruction, its lines joined."""
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    for line in lines:
        whole = line
        while whole.endswith("\\"):
            whole = whole[:-1] + next(lines)
        name, _, rest = whole.partition(" ")
        yield name, rest.strip()


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Replace $NAME, ${NAME} and ${NAME:?MESSAGE}."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        if match[2] and not values.get(name):
            raise CheckError(f"{name}: {match[2].removeprefix(':?')}")
        return values.get(name, "")

    return re.sub(r"\$\{(\w+)(:\?[^}]*)?\}|\$(\w+)", value, text)


class Builder:
    """Carries out a Dockerfile without a container runtime.

    Args:
        context: Folder that COPY takes files from.
        folder: A new folder, for the root file systems.
        bases: Makes the root file system of an image, in a folder that does not exist, and returns
            its environment.
    """

    def __init__(
        self, context: Path, folder: Path, bases: Mapping[str, Callable[[Path], dict[str, str]]]
    ) -> None:
        self.context, self.folder, self.bases = context, folder, bases
        folder.mkdir()
        self.stages: dict[str, Stage] = {}
        self.arguments: dict[str, str] = {}

    def build(self, text: str, given: Mapping[str, str]) -> Stage:
        """Return the last stage."""
        stage: Stage | None = None
        for name, rest in instructions(text):
            if name == "FROM":
                stage = self._start(substitute(rest, self.arguments | dict(given)))
            elif stage is None:
                if name != "ARG":
                    raise CheckError(f"{name} before FROM")
                key, _, default = rest.partition("=")
                self.arguments[key] = default
            else:
                self._carry_out(stage, name, rest)
        if stage is None:
            raise CheckError("the Dockerfile has no FROM")
        return stage

    def _start(self, rest: str) -> Stage:
        image, _, name = rest.partition(" AS ")
        root = self.folder / f"stage-{len(self.stages)}"
        if image in self.stages:
            base = self.stages[image]
            copy_folder(base.root, root)
            stage = Stage(root, dict(base.environment))
        else:
            print(f"image_check: a root file system in place of {image}", flush=True)
            stage = Stage(root, self.bases[image.partition(":")[0]](root))
        self.stages[name or str(len(self.stages))] = stage
        return stage

    def _carry_out(self, stage: Stage, name: str, rest: str) -> None:
        if name == "RUN":
            self.run_inside(stage, rest)
        elif name == "COPY":
            self._copy(stage, rest)
        elif name == "ENV":
            for word in shlex.split(rest):
                key, _, value = word.partition("=")
                stage.environment[key] = value
        elif name == "USER":
            stage.user = rest
        elif name == "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        elif name == "CMD":
            stage.command = json.loads(rest)
        elif name == "HEALTHCHECK":
            stage.health_check = json.loads(rest.partition(" CMD ")[2])
        elif name not in ("ARG", "LABEL", "EXPOSE", "STOPSIGNAL"):
            raise CheckError(f"this script does not know the instruction {name}")

    @staticmethod
    def run_inside(stage: Stage, command: str) -> None:
        """Run a command in the root file system, with the network of this machine."""
        print(f"image_check: RUN {command[:100]}", flush=True)
        certificates = stage.root / _CERTIFICATES
        resolver = stage.root / "etc" / "resolv.conf"
        environment = stage.environment | {
            name: value for name, value in os.environ.items() if _FOR_BUILDS.fullmatch(name)
        }
        if os.environ.get("SSL_CERT_FILE"):
            shutil.copyfile(os.environ["SSL_CERT_FILE"], certificates)
            environment |= dict.fromkeys(_ON_CERTIFICATES, f"/{_CERTIFICATES}")
        shutil.copyfile("/etc/resolv.conf", resolver)
        pairs = [f"{name}={value}" for name, value in environment.items()]
        inside = ["/usr/bin/env", "-i", *pairs, "/bin/sh", "-c", command]
        try:
            run(["unshare", "--mount", "sh", "-c", _PREPARE_RUN, str(stage.root), *inside])
        finally:
            certificates.unlink(missing_ok=True)
            resolver.unlink()

    def _copy(self, stage: Stage, rest: str) -> None:
        options = re.match(r"--from=(\S+) ", rest)
        source_root = self.stages[options[1]].root if options else self.context
        source, target = rest[options.end() if options else 0 :].split()
        origin = source_root / source.strip("/")
        place = stage.root / target.strip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        # Of a folder COPY takes the content.
        taken = f"{origin}/." if origin.is_dir() else str(origin)
        run(["cp", "--archive", "--no-preserve=ownership", taken, str(place)])


def make_debian(root: Path) -> dict[str, str]:
    """Make a root file system of Debian's essential packages, as slim as debian:12-slim."""
    run(
        [
            *("mmdebstrap", "--quiet", "--variant=minbase", "--include=usr-is-merged"),
            *(f"--dpkgopt=path-exclude=/usr/share/{name}" for name in SLIM),
            f"--dpkgopt=path-include=/usr/share/{COPYRIGHT}",
            *(f"--aptopt={option}" for option in NO_CACHES),
            f'--customize-hook=chroot "$1" apt-get purge --yes {USRMERGE}',
            *(DISTRIBUTION, str(root)),
        ]
    )
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/bin"}


def make_triton(cpu: Stage, root: Path) -> dict[str, str]:
    """Make a root file system with the packaged server where NVIDIA's image has its own.

    It has no endcap, ONNX Runtime where NVIDIA's backend has its library, and pip.
    """
    copy_folder(cpu.root, root)
    (root / "opt" / "tritonserver").symlink_to("server/pytriton/tritonserver")
    (library,) = root.glob("opt/endcap/lib/python3*/site-packages/onnxruntime/capi/lib*.so.1.*")
    backend = root / "opt" / "server" / "pytriton" / "tritonserver" / "backends" / "onnxruntime"
    backend.mkdir()
    shutil.copy(library, backend / "libonnxruntime.so")
    shutil.rmtree(root / "opt" / "endcap")
    stage = Stage(root, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    Builder.run_inside(
        stage,
        "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
        "--no-install-recommends ca-certificates python3-pip",
    )
    return {
        "PATH": "/opt/tritonserver/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": "/opt/server/nvidia_pytriton.libs",
    }


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder as it is to a path that does not exist."""
    run(["cp", "--archive", "--reflink=auto", str(source), str(target)])


def run(command: list[str]) -> None:
    """Run a program; raise CheckError with the end of its output where it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise CheckError(f"{shlex.join(command)[:300]} failed:\n{done.stdout[-3000:]}")


@contextlib.contextmanager
def running(stage: Stage, shared_memory_mib: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the image's command on a read-only root, as its user, without capabilities."""
    (stage.root / "models").mkdir(exist_ok=True)
    user, _, group = stage.user.partition(":")
    process = subprocess.Popen(
        [
            *("unshare", "--mount", "--ipc", "sh", "-c", _PREPARE_SERVER, str(stage.root)),
            *(str(REPOSITORY), str(shared_memory_mib)),
            *("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
            *("/usr/bin/env", "-i"),
            *(f"{name}={value}" for name, value in stage.environment.items()),
            *stage.entrypoint,
            *stage.command,
        ],
        stdout=sys.stderr,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def check(stage: Stage, model: str, shared_memory_mib: int) -> None:
    """Raise CheckError where the server does not work or has rights that it needs not."""
    with running(stage, shared_memory_mib) as process:
        _wait_until_healthy(stage, process)
        _check_rights(process.pid)
        with DetectionClient(f"127.0.0.1:{GRPC_PORT}", model=model) as client:
            results = client.detect(SAMPLES)
        found = sum(len(result.detections) for result in results)
        if not all(result.status == "ok" and result.detections for result in results):
            raise CheckError(f"not all of the demo's images have detections: {results}")
        print(f"image_check: {len(results)} images of the demo, {found} detections")
        process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        code = process.wait(GRACE_PERIOD_S - PRE_STOP_S)
        if code != 0:
            raise CheckError(f"the server ended with exit code {code} after SIGTERM")
        print(f"image_check: it ended {time.monotonic() - started:.1f} s after SIGTERM")


def _inside(process: int, stage: Stage, command: list[str]) -> int:
    """Run a command where the server runs, as its user; return the exit code."""
    user, _, group = stage.user.partition(":")
    return subprocess.run(
        [
            *("nsenter", f"--target={process}", "--mount", "--root", "--wd=/"),
            *("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"),
            *("/usr/bin/env", "-i", f"PATH={stage.environment['PATH']}", *command),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode


def _wait_until_healthy(stage: Stage, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        if _inside(process.pid, stage, stage.health_check) == 0:
            for folder in ("/", "/opt", "/models", "/etc"):
                if _inside(process.pid, stage, ["touch", f"{folder}/written"]) == 0:
                    raise CheckError(f"{folder} can be written to")
            return
        time.sleep(0.5)
    raise CheckError(f"the health check failed for {READY_WITHIN_S} s, or the server has ended")


def _check_rights(launcher: int) -> None:
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    for process in (launcher, *map(int, children)):
        status = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{process}/status").read_text().splitlines()
            if ":" in line
        )
        rights = {name: int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapInh")}
        users = set(status["Uid"].split())
        if any(rights.values()) or "0" in users or status["NoNewPrivs"].strip() != "1":
            raise CheckError(f"process {process} has rights: {rights}, users {users}")
        print(f"image_check: {status['Name'].strip()} is user {'/'.join(users)}, no capabilities")


def report_size(root: Path) -> dict[str, Any]:
    """Print what the image's megabytes are, and return it."""
    sizes = account(root)
    total = sum(sizes.values())
    print(f"image_check: the CPU image has {total / MIB:.0f} MiB ({total / 1e6:.0f} MB)")
    for name, size in sizes.items():
        print(f"  {size / MIB:7.1f} MiB  {name}")
    packed = subprocess.run(
        ["sh", "-c", 'tar --create --one-file-system --directory "$0" . | gzip | wc -c', str(root)],
        capture_output=True,
        text=True,
        check=True,
    )
    compressed = int(packed.stdout)
    print(f"image_check: {compressed / MIB:.0f} MiB as one compressed layer")
    return {"bytes": total, "compressed_bytes": compressed, "components": sizes}


def write_size(output: Path, model: str, figures: dict[str, Any]) -> None:
    """Put the account of an image into the file, beside those of other models."""
    sizes = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else {}
    date = datetime.now(timezone.utc).date().isoformat()
    sizes[model] = {"date": date, "base": BASE, **figures}
    output.write_text(json.dumps(sizes, indent=2) + "\n", encoding="utf-8")


def check_contents(root: Path, folders: list[str]) -> None:
    """Raise CheckError where the bill of materials is not that of the image."""
    problems = list(check_bill(root, SBOM_PATH, folders))
    if problems:
        raise CheckError("\n".join(problems))
    components = json.loads((root / SBOM_PATH.lstrip("/")).read_text())["components"]
    inner = sum(len(each.get("components", ())) for each in components)
    print(
        f"image_check: {SBOM_PATH} lists {len(components)} packages, all that are installed, and "
        f"{inner} libraries and files inside them; it follows the schema"
    )


def check_images(folder: Path, wheel: Path, model: str, output: Path | None) -> None:
    """Write the files, build both images in `folder`, and check them.

    Args:
        folder: For the files and the root file systems.
        wheel: Of endcap, for Python 3.11.
        model: Of the shipped repository.
        output: File for the account of the CPU image's size.

    Raises:
        CheckError: An image cannot be built, or does not do what it is for.
    """
    bundle = folder / "bundle"
    options = BundleOptions(models=(model,), accept_known_vulnerabilities=True, wheel=wheel)
    plan = make_plan(REPOSITORY, options)
    write_bundle(plan, bundle)
    builder = Builder(bundle, folder / "cpu", {"debian": make_debian})
    cpu = builder.build((bundle / "Dockerfile.cpu").read_text(), {"DEBIAN_DIGEST": DIGEST})
    figures = report_size(cpu.root)
    if output is not None:
        write_size(output, model, figures)
    if not plan.needs.python_models and sum(figures["components"].values()) > LARGEST_BYTES:
        raise CheckError(f"the CPU image has more than {LARGEST_BYTES / 1e6:.0f} MB")
    packages = [f"/{path.relative_to(cpu.root)}" for path in cpu.root.glob(PACKAGES)]
    check_contents(cpu.root, [*packages, "/opt/server"])
    check(cpu, model, plan.needs.shared_memory_mib)
    if plan.needs.python_models:
        print("image_check: Dockerfile.gpu is not tried: its Python models need NVIDIA's image")
        return
    with zipfile.ZipFile(wheel) as archive:
        has_gpu_code = check_wheel.CUDA_LIBRARY in archive.namelist()
    if not has_gpu_code:
        print("image_check: Dockerfile.gpu is not tried: the wheel has no GPU code (CUDA=ON)")
        return
    bases = {TRITON: functools.partial(make_triton, builder.stages["image"])}
    builder = Builder(bundle, folder / "gpu", bases)
    gpu = builder.build((bundle / "Dockerfile.gpu").read_text(), {"TRITON_DIGEST": DIGEST})
    unpacked = builder.stages["wheel"].root / "unpacked"
    installed = gpu.root / "unpacked"
    installed.mkdir()
    shutil.copytree(next(unpacked.glob("*.dist-info")), installed / "endcap.dist-info")
    check_contents(gpu.root, ["/usr/lib/python3/dist-packages", "/unpacked"])
    shutil.rmtree(installed)
    check(gpu, model, plan.needs.shared_memory_mib)


def why_not() -> str | None:
    """Return why the check cannot run on this machine, None where it can."""
    if os.geteuid() != 0:
        return "it needs root, for chroot and mounts; run it with sudo"
    missing = [name for name in ("mmdebstrap", "unshare", "setpriv", "nsenter")
               if shutil.which(name) is None]  # fmt: skip
    if missing:
        return (
            f"{', '.join(missing)} is missing; install it with "
            "`apt-get install --no-install-recommends mmdebstrap util-linux`"
        )
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "this machine does not allow mount namespaces" if done.returncode else None


def main() -> int:
    """Build and check the image; the exit code is 1 where it fails, 2 where it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, required=True, help="for Python 3.11")
    parser.add_argument("--model", default="detect", help="of the shipped repository")
    parser.add_argument("--output", type=Path, help="write the account of the size, JSON")
    parser.add_argument("--folder", type=Path, help="keep the root file systems there")
    options = parser.parse_args()
    reason = why_not()
    if reason is not None:
        print(f"image_check: NOT DONE: {reason}", file=sys.stderr)
        return 2
    with contextlib.ExitStack() as opened:
        if options.folder is None:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="endcap-image-")))
        else:
            folder = options.folder.resolve()
            folder.mkdir(parents=True)
        os.chmod(folder, 0o755)
        try:
            check_images(folder, options.wheel, options.model, options.output)
        except CheckError as error:
            print(f"image_check: {error}", file=sys.stderr)
            return 1
    print("image_check: all is well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
