"""The command `endcap bundle`: what it writes, what it refuses, and what it leaves alone."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from cli_runs import assert_error_message, endcap

from endcap.server.advisories import find_advisories
from endcap.server.exposure import restriction_options
from endcap.server.release import Release, ServerRelease
from endcap.server.settings import ServerSettings
from endcap.tools.bundle import BundleOptions, make_plan
from endcap.tools.bundle.options import BundleError, ImageReference
from endcap.tools.bundle.rendering import SBOM_PATH

REPOSITORY = Path(__file__).resolve().parents[3] / "model_repository"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
CPU_TOO = "--accept-known-vulnerabilities"


def bundle(folder: Path, *options: object, repository: Path = REPOSITORY) -> Path:
    result = endcap("bundle", repository, "--output", folder, *options)
    assert result.exit_code == 0, result.output
    return folder


def test_a_cpu_server_has_to_be_accepted(tmp_path: Path) -> None:
    without = endcap("bundle", REPOSITORY, "--output", tmp_path / "gpu", "--model", "detect")
    assert without.exit_code == 0
    assert "known vulnerabilities" in without.stderr
    assert CPU_TOO in without.stderr
    assert not [path for path in (tmp_path / "gpu").rglob("*") if "cpu" in path.name]
    with_it = endcap("bundle", REPOSITORY, "--output", tmp_path / "both", CPU_TOO)
    assert "known vulnerabilities" not in with_it.stderr
    both = {path.name for path in (tmp_path / "both").iterdir()}
    assert {"Dockerfile.cpu", "Dockerfile.gpu"} <= both


def test_the_default_release_has_no_known_vulnerability() -> None:
    assert find_advisories(Release.parse(BundleOptions().triton_release)) == []


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--triton-release", "25.01"], ["25.01", "known vulnerabilities", "26.07"]),
        (["--triton-release", "99.01"], ["99.01", "26.08"]),
        (["--source", "nfs"], ["'nfs'", "volume", "image", "s3://"]),
        (["--source", "s3://a_b/$(id)"], ["volume", "image", "s3://"]),
        (["--source", "s3://bucket/models"], ["--digest aws-cli=sha256:"]),
        (["--name", "Big Name"], ["--name is 'Big Name'", "lowercase"]),
        (["--namespace", "a/b"], ["--namespace is 'a/b'"]),
        (["--gpu-image", "a b"], ["--gpu-image is 'a b'", "NAME:TAG"]),
        (["--digest", "triton=sha256:12"], ["--digest is 'triton=sha256:12'", "64 hexadecimal"]),
        (["--digest", "redis=" + DIGEST], ["redis", "triton, debian"]),
        (["--digest", "triton"], ["--digest is 'triton'"]),
        (["--min-replicas", "9"], ["--max-replicas is 8", "--min-replicas 9"]),
        (["--wheel", "nothing.whl"], ["nothing.whl", "make wheel"]),
        (["--model", "nothing"], ["no model 'nothing'", "detect"]),
        (["--trace-url", "collector:4318"], ["'collector:4318' is no address", "OTLP over HTTP"]),
        (["--trace-url", "http://u:p@host:4318/v1/traces"], ["a name or a password"]),
        (["--trace-every", "100"], ["one request in 100", "--trace-url"]),
    ],
)
def test_wrong_options_are_errors(tmp_path: Path, options: list[str], parts: list[str]) -> None:
    result = endcap("bundle", REPOSITORY, "--output", tmp_path / "deploy", *options)
    assert_error_message(result, *parts)
    assert not (tmp_path / "deploy").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "deploy", "--model", "detect")
    (folder / "compose.yaml").write_text("mine")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    result = endcap("bundle", REPOSITORY, "--output", folder)
    assert_error_message(result, f"folder {folder} is not empty", "--output")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_an_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "models"
    shutil.copytree(REPOSITORY / "preprocess", repository / "preprocess")
    (repository / "preprocess" / "1" / "broken").symlink_to("nowhere")
    result = endcap("bundle", repository, "--output", tmp_path / "deploy", "--source", "image")
    assert_error_message(result, "broken", "cannot be copied")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models"]


def test_the_repository_is_no_place_for_it(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    shutil.copytree(REPOSITORY / "preprocess", repository / "preprocess")
    result = endcap("bundle", repository, "--output", repository / "deploy")
    assert_error_message(result, "lies in the model repository")
    assert not (repository / "deploy").exists()


def test_a_backend_that_the_cpu_image_lacks_is_an_error(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    (repository / "network" / "1").mkdir(parents=True)
    (repository / "network" / "config.pbtxt").write_text('backend: "tensorrt"\n')
    result = endcap("bundle", repository, "--output", tmp_path / "deploy", CPU_TOO)
    assert_error_message(result, "'network'", "'tensorrt'", CPU_TOO)
    bundle(tmp_path / "deploy", repository=repository)


def test_all_yaml_and_json_can_be_read(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "deploy", CPU_TOO)
    files = [path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml", ".json")]
    assert len(files) > 20
    for path in files:
        if path.suffix == ".json":
            json.loads(path.read_text())
        else:
            assert list(yaml.safe_load_all(path.read_text()))
    for path in folder.rglob("*"):
        if path.is_file():
            assert path.read_text().endswith("\n"), path
            assert "{{" not in path.read_text() or path.name in (
                "rules.yaml", "prometheus-rule.yaml", "endcap.json", "README.md", ".env"
            ), path  # fmt: skip


def test_optional_models_are_left_out_unless_named() -> None:
    plan = make_plan(REPOSITORY, BundleOptions())
    assert {"detect", "preprocess"} <= set(plan.needs.models)
    assert not {"detect_dali", "preprocess_dali"} & set(plan.needs.models)
    named = make_plan(REPOSITORY, BundleOptions(models=("detect_python",)))
    assert "preprocess_python" in named.needs.models
    assert "preprocess_python" in named.needs.python_models


def test_python_models_need_shared_memory_and_packages(tmp_path: Path) -> None:
    compiled = make_plan(REPOSITORY, BundleOptions(models=("detect",))).needs
    in_python = make_plan(REPOSITORY, BundleOptions(models=("detect_python",))).needs
    assert compiled.shared_memory_mib == 64
    assert in_python.shared_memory_mib > 64
    assert in_python.memory_mib > compiled.memory_mib
    folder = bundle(tmp_path / "deploy", "--model", "detect_python", CPU_TOO)
    assert "libpython3.11" in (folder / "Dockerfile.cpu").read_text()
    assert "numpy<2" in (folder / "Dockerfile.cpu").read_text()
    assert "pip install" in (folder / "Dockerfile.gpu").read_text()
    without = bundle(tmp_path / "compiled", "--model", "detect", CPU_TOO)
    assert "libpython" not in (without / "Dockerfile.cpu").read_text()
    assert "pip install" not in (without / "Dockerfile.gpu").read_text()


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_images_have_what_they_need(tmp_path: Path, name: str) -> None:
    text = (bundle(tmp_path / "deploy", CPU_TOO) / f"Dockerfile.{name}").read_text()
    base = {"cpu": "DEBIAN", "gpu": "TRITON"}[name]
    assert f"\nARG {base}_DIGEST\n" in text, "no default"
    assert all(f"${{{base}_DIGEST" in line for line in re.findall(r"^FROM \$.*", text, re.M))
    assert re.search(rf"\$\{{{base}_DIGEST:\?give --build-arg", text)
    instructions = re.findall(r"^([A-Z]+) ", text, re.M)
    assert {"HEALTHCHECK", "LABEL", "USER", "ENTRYPOINT", "CMD", "STOPSIGNAL"} <= set(instructions)
    (user,) = re.findall(r"^USER (\d+):(\d+)$", text, re.M)
    assert min(map(int, user)) > 0
    for label in ("title", "version", "licenses", "base.name", "base.digest"):
        assert f"org.opencontainers.image.{label}=" in text


@pytest.mark.parametrize("name", ["cpu", "gpu"])
@pytest.mark.parametrize("model", ["detect", "detect_python"])
def test_images_have_a_bill_of_materials(tmp_path: Path, name: str, model: str) -> None:
    """It is made of the stage that the last one begins with, by tools that this does not have."""
    folder = bundle(tmp_path / "deploy", CPU_TOO, "--model", model)
    assert (folder / "sbom" / "image_sbom.py").is_file()
    assert "!sbom" in (folder / ".dockerignore").read_text().splitlines()
    stages = (folder / f"Dockerfile.{name}").read_text().split("\nFROM ")
    bill, last = stages[-2:]
    assert bill.startswith("image AS sbom\n")
    assert "image_sbom.py" in bill
    assert last.startswith("image\n")
    assert f"COPY --from=sbom /sbom/sbom.cdx.json {SBOM_PATH}\n" in last
    assert "RUN" not in re.findall(r"^[A-Z]+", last, re.M)


def test_the_gpu_image_has_all_backends(tmp_path: Path) -> None:
    text = (bundle(tmp_path / "deploy") / "Dockerfile.gpu").read_text()
    from endcap.triton.installation import OUR_BACKENDS

    for backend in OUR_BACKENDS:
        assert f"endcap/backends/{backend}/ /opt/tritonserver/backends/{backend}/" in text


def test_the_gpu_server_is_closed_as_serve_closes_one() -> None:
    plan = make_plan(REPOSITORY, BundleOptions(models=("detect",)))
    command = plan.command(plan.variants[0], "/models")
    release = ServerRelease(name="", release=plan.release)
    closed = restriction_options(release, ServerSettings())
    assert closed
    assert command[-len(closed) :] == closed


def test_traces_go_where_they_are_sent(tmp_path: Path) -> None:
    url = "http://collector.monitoring:4318"
    folder = bundle(tmp_path / "deploy", CPU_TOO, "--trace-url", url, "--trace-every", "100")
    commands = {}
    for variant in ("gpu", "cpu"):
        text = (folder / f"Dockerfile.{variant}").read_text()
        (line,) = (each for each in text.splitlines() if each.startswith("CMD "))
        commands[variant] = json.loads(line.removeprefix("CMD "))
    assert f"--trace-config=opentelemetry,url={url}/v1/traces" in commands["gpu"]
    assert "--trace-config=rate=100" in commands["gpu"]
    assert {f"--trace-url={url}", "--trace-every=100"} <= {*commands["cpu"]}
    assert outward_ports(folder) == [53, 53, 4318]

    silent = bundle(tmp_path / "silent", CPU_TOO)
    assert outward_ports(silent) == []
    assert "trace-config" not in (silent / "Dockerfile.gpu").read_text()
    assert "trace-url" not in (silent / "Dockerfile.cpu").read_text()


def outward_ports(folder: Path) -> list[int]:
    policy = yaml.safe_load((folder / "kubernetes/base/network-policy.yaml").read_text())
    return [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]


def test_digests_are_written_where_they_are_given(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "deploy", "--digest", f"triton={DIGEST}")
    assert f"ARG TRITON_DIGEST={DIGEST}\n" in (folder / "Dockerfile.gpu").read_text()
    assert f"TRITON_DIGEST={DIGEST}\n" in (folder / ".env").read_text()
    assert "\nGRAFANA_DIGEST=\n" in (folder / ".env").read_text()


def test_compose_opens_ports_to_this_machine_only(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "deploy", CPU_TOO)
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    assert set(services) == {"server-cpu", "server-gpu", "prometheus", "grafana"}
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    server = services["server-cpu"]
    assert server["volumes"][0]["source"] == str(REPOSITORY)
    assert server["volumes"][0]["read_only"] is True
    (alias,) = server["networks"]["default"]["aliases"]
    prometheus = yaml.safe_load((folder / "monitoring" / "prometheus.yml").read_text())
    (scrape,) = prometheus["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": [f"{alias}:8002"]}]


def test_a_path_is_no_variable_of_compose(tmp_path: Path) -> None:
    repository = tmp_path / 'a $HOME "models"'
    shutil.copytree(REPOSITORY / "preprocess", repository / "preprocess")
    folder = bundle(tmp_path / "deploy", repository=repository)
    server = yaml.safe_load((folder / "compose.yaml").read_text())["services"]["server-gpu"]
    assert server["volumes"][0]["source"] == str(repository).replace("$", "$$")


def test_the_wheel_is_copied(tmp_path: Path) -> None:
    wheel = tmp_path / "endcap-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl"
    wheel.write_bytes(b"a wheel")
    folder = bundle(tmp_path / "deploy", "--wheel", wheel)
    assert (folder / "wheels" / wheel.name).read_bytes() == b"a wheel"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("endcap", ("endcap", "", "")),
        ("endcap-gpu:1", ("endcap-gpu", "1", "")),
        ("registry.example:5000/a/b", ("registry.example:5000/a/b", "", "")),
        (f"registry.example:5000/a/b:c@{DIGEST}", ("registry.example:5000/a/b", "c", DIGEST)),
    ],
)
def test_image_references(text: str, parts: tuple[str, str, str]) -> None:
    image = ImageReference.parse(text, "--gpu-image")
    assert (image.name, image.tag, image.digest) == parts
    assert str(image) == text


@pytest.mark.parametrize("text", ["", "A", "a:b:c", "a\nb", "a@sha256:1", "-a", "a/"])
def test_no_image_references(text: str) -> None:
    with pytest.raises(BundleError, match="--gpu-image"):
        ImageReference.parse(text, "--gpu-image")


def test_the_page_lists_what_is_written(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "deploy", CPU_TOO, "--source", "image")
    page = (REPOSITORY.parent / "docs" / "kubernetes.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page.split("## Images")[0], re.M)
    listed = {name for row in rows for name in re.findall(r"`([^.`][^`]*|\.env)`", row)}
    assert [name for name in listed if not (folder / name).exists()] == []
    names = {name.strip("/").split("/")[0] for name in listed}
    assert {path.name for path in folder.iterdir()} == names | {"README.md", ".dockerignore"}


def test_a_model_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    model = Path(os.fsdecode(os.fsencode(tmp_path) + b"/models/caf\xe9"))
    shutil.copytree(REPOSITORY / "preprocess", model)
    result = endcap("bundle", tmp_path / "models", "--output", tmp_path / "out")
    assert_error_message(result, "rename its folder")
    assert not (tmp_path / "out").exists()
