"""What a failed start tells of stubs, from the lines of a server's log."""

from __future__ import annotations

import pytest

from endcap.server.exit_reasons import explained, failure_reasons, refusals

PLACE = r"\n\nAt:\n  /tmp/endcap_stub_a/1/model.py(11): <module>\n  <frozen importlib>(1): f\n"
STARTS = 'E1122 00:34:47.248231 31020 model_lifecycle.cc:642] "failed to load '


def test_a_refusal_takes_the_place_of_triton_s_reason():
    lines = [
        "endcap stub: model 'a': NumPy 2.2.6 is too new; install 'numpy<2'",
        STARTS + "'a' version 1: Internal: Stub process 'a_0_0' is not healthy.\"",
        STARTS + "'b' version 1: Internal: something else\"",
    ]
    assert refusals(lines) == {"a": "NumPy 2.2.6 is too new; install 'numpy<2'"}
    assert failure_reasons(lines) == [
        "model 'b': Internal: something else",
        "model 'a': NumPy 2.2.6 is too new; install 'numpy<2'",
    ]


def test_a_refusal_that_only_triton_reports():
    lines = [STARTS + f"'a' version 1: Internal: EndcapStub: no room; make some{PLACE}\""]
    assert failure_reasons(lines) == ["model 'a': no room; make some"]


def test_an_archive_that_triton_cannot_read_is_explained():
    reason = explained("Internal: archive_read_data_block() failed with error code = -30")
    assert reason.startswith("the archive of EXECUTION_ENV_PATH is broken off")
    assert "archive_read_data_block()" in reason
    assert explained("Internal: ValueError: no") == "Internal: ValueError: no"


@pytest.mark.parametrize(
    ("said", "package"),
    [
        ("ModuleNotFoundError: No module named 'cv2'", "opencv-python-headless"),
        ("ModuleNotFoundError: No module named 'nvidia.dali'", "nvidia-dali-cuda130"),
        ("ModuleNotFoundError: No module named 'scipy.signal'", "scipy"),
        ("DaliError: DALI is not installed; install it with `pip`", "nvidia-dali-cuda130"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_variable_that_brings_it(said, package):
    (reason,) = failure_reasons([STARTS + f"'a' version 1: Internal: {said}{PLACE}\""])
    assert reason.startswith(f"model 'a': Internal: {said} (at /")
    assert f"`export ENDCAP_SERVER_PACKAGES={package}`" in reason


def test_without_onnx_runtime_the_command_of_pip_comes_first():
    reason = explained(
        "Internal: unsupported: model 'a': 'libonnxruntime.so.1' cannot be opened "
        "(libonnxruntime.so.1: cannot open shared object file: No such file or directory)"
    )
    assert reason.startswith("ONNX Runtime is not installed; run `pip install ")
    assert "onnxruntime" in reason.partition("`")[2]
