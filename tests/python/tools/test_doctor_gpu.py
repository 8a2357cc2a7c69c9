"""The doctor's checks of GPUs, their driver, and the code for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from doctor_world import Response, World, doctor, subject

import endcap
from endcap.tools.doctor import Severity, gpu


def add_libraries(world: World, names: Sequence[str]) -> None:
    for name in names:
        (world.site / name).parent.mkdir(parents=True, exist_ok=True)
        (world.site / name).touch()


def test_without_a_gpu_all_is_a_note() -> None:
    if gpu.check_driver(subject(Path())).severity is Severity.OK:
        pytest.skip("there is an NVIDIA driver")
    report = doctor()
    report.expect("cuda_driver", "note", "no NVIDIA driver is here", "`docker run --gpus all`")
    assert report.findings["gpus"]["found"] == "none"
    assert report.errors == set()


def test_nvjpeg_and_dali_are_found_in_their_wheels(tmp_path: Path) -> None:
    world = World(tmp_path, without=["nvidia", "nvidia_nvjpeg*", "nvidia_dali*"])
    before = world.doctor()
    before.expect("dali", "note", "nvidia.dali is not installed", "`pip install 'nvidia-")
    if before.findings["nvjpeg"]["severity"] == "note":  # else the CUDA toolkit is installed
        before.expect("nvjpeg", "note", "libnvjpeg.so is neither", "`pip install 'cuda-bindings>=")
    add_libraries(world, ["nvidia/cu13/lib/libnvjpeg.so.13", "nvidia/dali/__init__.py"])
    world.add_distribution("nvidia-dali-cuda130", "2.4.0")
    after: Response = world.doctor()
    assert after.findings["nvjpeg"]["found"] == str(world.site / "nvidia/cu13/lib/libnvjpeg.so.13")
    assert after.findings["dali"]["found"] == "nvidia-dali-cuda130 2.4.0"
    after.expect("dali", "warning", "cannot be imported (", "`pip install --upgrade")  # it is empty


GPU_CODE = endcap.CudaState(
    available=True,
    reason="",
    library_path="/somewhere/libendcap_cuda.so",
    driver_version=13010,
    runtime_version=13000,
    architectures="75-real 90-real",
    devices=(endcap.CudaDevice(0, "Some GPU", (9, 0), 132, 1 << 36, True),),
)


@pytest.mark.parametrize(
    ("changes", "severity", "found", "problem"),
    [
        ({}, "ok", "CUDA 13.0 for 75-real 90-real", None),
        (
            {"devices": (endcap.CudaDevice(1, "Old GPU", (6, 1), 20, 1 << 33, False),)},
            "note",
            "CUDA 13.0 for 75-real 90-real",
            "there is no code for cuda:1 (Old GPU)",
        ),
        (
            {"available": False, "driver_version": 0, "reason": "there is no NVIDIA driver"},
            "note",
            "CUDA 13.0 for 75-real 90-real, without a driver",
            None,
        ),
        (
            {"available": False, "reason": "the NVIDIA driver runs CUDA 12.4; install another"},
            "warning",
            "CUDA 13.0 for 75-real 90-real",
            "the NVIDIA driver runs CUDA 12.4",
        ),
        (
            {"available": False, "runtime_version": 0, "reason": "x.so: invalid ELF header"},
            "error",
            "none",
            "x.so: invalid ELF header",
        ),
        (
            {
                "available": False,
                "library_path": "",
                "runtime_version": 0,
                "reason": "this build of endcap has no GPU code (looked for x)",
            },
            "note",
            "none",
            "this build of endcap has no GPU code (looked for x)",
        ),
    ],
    ids=["usable", "uncovered", "no driver", "old driver", "broken", "absent"],
)
def test_what_is_said_of_the_gpu_code(
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    severity: str,
    found: str,
    problem: str | None,
) -> None:
    state = dataclasses.replace(GPU_CODE, **changes)
    monkeypatch.setattr(endcap, "cuda_state", lambda: state)
    finding = gpu.check_cuda_library(subject(Path()))
    assert (finding.severity.value, finding.found, finding.problem) == (severity, found, problem)


@pytest.mark.parametrize(
    ("state", "severity", "found", "problem"),
    [
        (
            endcap.NvjpegState(True, "", "/somewhere/libnvjpeg.so.13", "13.0.1"),
            "ok",
            "13.0.1, /somewhere/libnvjpeg.so.13",
            None,
        ),
        (
            endcap.NvjpegState(False, "no JPEG engine; take another", "/x/libnvjpeg.so", "12.4.0"),
            "note",
            "12.4.0, /x/libnvjpeg.so",
            "no JPEG engine",
        ),
        (
            endcap.NvjpegState(False, "nvJPEG was not found; install it", "", ""),
            "note",
            "none",
            "nvJPEG was not found",
        ),
    ],
    ids=["usable", "no engine", "absent"],
)
def test_what_is_said_of_nvjpeg_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
    state: endcap.NvjpegState,
    severity: str,
    found: str,
    problem: str | None,
) -> None:
    uncovered = endcap.CudaDevice(0, "Old GPU", (6, 1), 20, 1 << 33, False)
    covered = endcap.CudaDevice(1, "Some GPU", (9, 0), 132, 1 << 36, True)
    cuda = dataclasses.replace(GPU_CODE, devices=(uncovered, covered))
    devices: list[int] = []
    monkeypatch.setattr(endcap, "cuda_state", lambda: cuda)
    monkeypatch.setattr(endcap, "nvjpeg_state", lambda device: devices.append(device) or state)
    finding = gpu.check_nvjpeg(subject(Path()))
    assert (finding.severity.value, finding.found, finding.problem) == (severity, found, problem)
    assert devices == [1]


def test_nvjpeg_of_cuda_13_comes_before_that_of_cuda_12(tmp_path: Path) -> None:
    world = World(tmp_path, without=["nvidia", "nvidia_nvjpeg*"])
    names = ["nvidia/cu13/lib/libnvjpeg.so.13", "nvidia/a_folder/lib/libnvjpeg.so.12"]
    add_libraries(world, names)
    found = world.doctor().findings["nvjpeg"]["found"]
    assert found == str(world.site / names[0])


def test_nvidia_smi_that_fails(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho it could not talk to the driver\nexit 9\n")
    program.chmod(0o755)
    report = doctor(environment={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    report.expect(
        "gpus", "warning", "ended with exit code 9 and printed: it could not talk", "`nvidia-smi`"
    )


def test_versions_are_read_from_what_drivers_print() -> None:
    proc = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (x)\n"
        "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
    )
    assert gpu.release_of_driver(proc) == "580.65.06"
    assert gpu.release_of_driver("") is None
    assert gpu.format_cuda_version(13000) == "13.0"
    assert gpu.format_cuda_version(12040) == "12.4"
    listing = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n  MIG 1g.10gb Device 0: (UUID: MIG-2)\n"
        "GPU 1: Tesla T4\n"
    )
    assert gpu.names_of_gpus(listing) == ["NVIDIA H100 80GB HBM3", "Tesla T4"]
    assert gpu.names_of_gpus("No devices were found\n") == []
