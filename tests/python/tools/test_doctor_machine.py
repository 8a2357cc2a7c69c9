"""endcap doctor on machines that have too little: shared memory, files and ports."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_world import doctor, in_own_mounts, subject
from echo_model import write_model

from endcap.server import ServerPorts
from endcap.tools.doctor import Severity, machine
from endcap.tools.doctor.machine import (
    check_shared_memory,
    cpu_quota,
    memory_limit,
)

MIB = 2**20
LARGE_MODEL = """
backend: "python"
max_batch_size: 16
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1024, 1024 ] } ]
instance_group [ { count: 8 kind: KIND_CPU } ]
"""


# --- shared memory --------------------------------------------------------------------------------


def test_shared_memory_as_small_as_dockers() -> None:
    report = doctor(before=in_own_mounts("mount -t tmpfs -o size=64m tmpfs /dev/shm"))
    report.expect(
        "shared_memory",
        "warning",
        "64 MiB are free in /dev/shm; Python models should have 256 MiB",
        "`docker run --shm-size=1g`",
    )
    assert report.exit_code == 1


def test_shared_memory_that_cannot_be_written() -> None:
    report = doctor(before=in_own_mounts("mount -t tmpfs -o ro tmpfs /dev/shm"))
    report.expect(
        "shared_memory",
        "error",
        "/dev/shm cannot be written: Read-only file system",
        "`mount -o remount,rw /dev/shm`",
        "--shm-size=1g",
    )
    assert report.errors == {"shared_memory"}
    assert report.exit_code == 2


def test_no_shared_memory() -> None:
    nothing_but_null = "mount -t tmpfs tmpfs /dev; mknod -m 666 /dev/null c 1 3 || touch /dev/null"
    report = doctor(before=in_own_mounts(nothing_but_null))
    report.expect(
        "shared_memory",
        "error",
        "/dev/shm is not a folder",
        "`mount -t tmpfs -o size=1g tmpfs /dev/shm`",
        "--shm-size=1g",
    )


def test_models_that_fill_more_than_there_is(tmp_path: Path) -> None:
    # 16 images of 4 MiB in each of 8 instances, in a folder that is really that small.
    repository = write_model(tmp_path / "models", "large", LARGE_MODEL)
    report = doctor(
        "--repository",
        repository,
        before=in_own_mounts("mount -t tmpfs -o size=300m tmpfs /dev/shm"),
    )
    report.expect(
        "shared_memory", "warning", "Python models should have 512 MiB", "lower max_batch_size"
    )
    small = write_model(tmp_path / "others", "other", 'backend: "endcap_preprocess"')
    report = doctor(
        "--repository", small, before=in_own_mounts("mount -t tmpfs -o size=16m tmpfs /dev/shm")
    )
    report.expect("shared_memory", "note", "--shm-size=1g")  # no Python model: nothing depends


def test_enough_shared_memory_is_ok(tmp_path: Path) -> None:
    if shutil.disk_usage(tmp_path).free < 256 * MIB:
        pytest.skip("the temporary folder has less than 256 MiB")
    repository = write_model(tmp_path / "models", "python", 'backend: "python"')
    finding = check_shared_memory(subject(repository, shared_memory=tmp_path))
    assert finding.severity is Severity.OK, finding


# --- processor, memory, ports, files --------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "membership", "cores", "limit"),
    [
        ({"cpu.max": "150000 100000", "memory.max": "1073741824"}, "0::/", 1.5, 2**30),
        ({"cpu.max": "max 100000", "memory.max": "max"}, "0::/", None, None),
        ({"a/cpu.max": "50000 100000", "cpu.max": "max 100000"}, "0::/a/b", 0.5, None),
        ({"a/cpu.max": "400000 100000", "cpu.max": "50000 100000"}, "0::/a", 0.5, None),
        ({"a/cpu.max": "50000 100000", "cpu.max": "400000 100000"}, "0::/a", 0.5, None),
        ({"a/memory.max": "4096", "memory.max": "8192"}, "0::/a", None, 4096),
        ({"a/memory.max": "8192", "memory.max": "4096"}, "0::/a", None, 4096),
        (
            {"cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            "4:cpu,cpuacct:/",
            2.0,
            None,
        ),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "4:cpu:/", None, None),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, "3:memory:/", None, None),
        ({"memory/memory.limit_in_bytes": "1024"}, "3:memory:/../outside", None, 1024),
        ({}, "", None, None),
    ],
)
def test_limits_of_a_container(
    tmp_path: Path,
    files: dict[str, str],
    membership: str,
    cores: float | None,
    limit: int | None,
) -> None:
    root = tmp_path / "cgroup"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    (tmp_path / "membership").write_text(membership and membership + "\n")
    assert cpu_quota(root, tmp_path / "membership") == cores
    assert memory_limit(root, tmp_path / "membership") == limit


def test_few_open_files() -> None:
    report = doctor(before=["sh", "-c", 'ulimit -n 200; exec "$@"', "sh"])
    report.expect(
        "open_files",
        "warning",
        "a process may have only 200 files open",
        "`ulimit -n 65536`",
        "docker run --ulimit nofile=65536",
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 200


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        port = holder.getsockname()[1]
        ports = ServerPorts(http=0, grpc=port, metrics=0)
        finding = machine.check_ports(subject(tmp_path, ports=ports))
    assert finding.severity is Severity.NOTE
    assert finding.found == "2 of 3 free"
    assert finding.problem is not None
    assert f"port {port} on 127.0.0.1 cannot be used for grpc" in finding.problem
    assert finding.remedy is not None
    assert finding.remedy.endswith("`endcap serve REPOSITORY --grpc-port 0`")
    assert machine.check_ports(subject(tmp_path, ports=ports)).severity is Severity.OK


def test_one_core_is_seen(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    code = f"""
import os
os.sched_setaffinity(0, {{{core}}})
from endcap.tools.doctor import Subject
from endcap.tools.doctor.machine import check_cpu
print(check_cpu(Subject(find_repository=lambda: None)).found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "; 1 core" in done.stdout


# --- GPU ------------------------------------------------------------------------------------------
