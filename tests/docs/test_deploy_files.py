"""docs/deploy: the files are valid, and agree with each other, with the code and with the configuration."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from dragoman_server.app import make_app
from dragoman_server.config.load import parse_config, simulated_config
from dragoman_server.observability.metric_families import FAMILIES
from support.deploy_files import DEPLOY, instructions
from support.json_schemas import schema_problems
from support.paths import ROOT
from support.programs import installed

KUBERNETES = DEPLOY / "kubernetes/base"
AUTOSCALING = DEPLOY / "kubernetes/autoscaling"
YAML_FILES = sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")])
MANIFESTS = [path for path in sorted(KUBERNETES.glob("*.yaml")) if path.name != "kustomization.yaml"]
OVERLAY = [AUTOSCALING / "hpa.yaml"]


class _StrictLoader(yaml.SafeLoader):
    """Refuses keys that occur twice, of which YAML keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key occurs twice {node.start_mark}"
        return super().construct_mapping(node, deep)


def read(path: Path) -> Any:
    """The only document of a file."""
    return yaml.load(path.read_text("utf-8"), _StrictLoader)


def manifest(name: str) -> Any:
    return read(KUBERNETES / f"{name}.yaml")


def stop_drain(path: Path) -> int:
    drain: int = tomllib.loads(path.read_text("utf-8"))["server"]["stop_drain"]
    return drain


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_yaml_is_read(path: Path) -> None:
    assert read(path)


# --- the configuration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [DEPLOY / "dragoman.toml", KUBERNETES / "dragoman.toml"], ids=["compose", "kubernetes"]
)
def test_the_configuration_is_valid_with_its_secrets(path: Path, tmp_path: Path) -> None:
    text = path.read_text("utf-8")
    schema = (path.parent / text.splitlines()[0].removeprefix("#:schema ")).resolve()
    assert schema == ROOT / "docs/reference/dragoman.schema.json"
    for name in secrets(text):
        (tmp_path / name).write_text("redis://redis:6379/0" if name == "redis_url" else "secret")
    data = tomllib.loads(text.replace("file:/run/secrets", f"file:{tmp_path}"))
    assert parse_config(data, {}).requires_key
    assert schema_problems(data) == []


def secrets(text: str) -> set[str]:
    """The names of the secrets that a configuration reads from files."""
    return set(re.findall(r"file:/run/secrets/(\w+)", text))


def test_both_configurations_are_equal() -> None:
    compose, kubernetes = (
        (folder / "dragoman.toml").read_text("utf-8").splitlines()[2:] for folder in (DEPLOY, KUBERNETES)
    )
    assert compose == kubernetes


# --- Docker ----------------------------------------------------------------------------------------------------------


def test_the_image_runs_as_its_own_user_and_checks_its_health() -> None:
    found = instructions()
    final = dict(found)
    assert final["USER"] == "10001:10001"
    copies = [rest for word, rest in found if word == "COPY"]
    assert copies == ["--from=build /image /", "--from=build --chown=10001:10001 /data /data"]
    assert final["VOLUME"] == "/data"
    assert final["ENTRYPOINT"] == '["dragoman"]'
    assert "/health" in final["HEALTHCHECK"]
    assert "DRAGOMAN_HOST=0.0.0.0 DRAGOMAN_PORT=8080" in final["ENV"]
    assert final["EXPOSE"] == "8080"
    assert "RUN" not in final, "the image has no shell"


def test_hadolint_has_no_remark_on_the_dockerfile() -> None:
    found = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([found, "--no-color", DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


def test_the_image_is_built_with_the_projects_version_of_uv() -> None:
    version = re.search(r"uv==[\d.]+", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert version is not None
    assert any(word == "RUN" and version[0] in rest for word, rest in instructions(0))
    allowed = re.findall(r"^!(.+)$", (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8"), re.MULTILINE)
    assert all((ROOT / name).exists() for name in allowed)


def test_compose_fits_the_image_and_the_configuration() -> None:
    compose = read(DEPLOY / "compose.yaml")
    gateway = compose["services"]["dragoman"]
    assert (DEPLOY / gateway["build"]["context"]).resolve() == ROOT
    assert (ROOT / gateway["build"]["dockerfile"]).is_file()
    assert gateway["read_only"]
    text = (DEPLOY / "dragoman.toml").read_text("utf-8")
    assert set(gateway["secrets"]) == secrets(text) == set(compose["secrets"])
    assert int(gateway["stop_grace_period"].removesuffix("s")) > stop_drain(DEPLOY / "dragoman.toml")
    for service in compose["services"].values():
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), "for this machine only"
        for volume in service.get("volumes", ()):
            source, _, _ = volume.partition(":")
            assert source in compose["volumes"] or (DEPLOY / source).is_file(), source


def memory_bound(path: Path) -> int:
    bound: int = tomllib.loads(path.read_text("utf-8"))["server"]["overload"]["memory"]
    return bound


def test_requests_are_rejected_before_the_container_has_no_memory() -> None:
    assert read(DEPLOY / "compose.yaml")["services"]["dragoman"]["mem_limit"] == "1g"
    assert memory_bound(DEPLOY / "dragoman.toml") * 4 == 3 << 30
    (container,) = manifest("deployment")["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == "1Gi"
    assert memory_bound(KUBERNETES / "dragoman.toml") * 4 == 3 << 30


def test_usage_needs_no_file() -> None:
    """The root file systems of both are read-only."""
    usage = tomllib.loads((DEPLOY / "dragoman.toml").read_text("utf-8"))["usage"]
    assert usage == {"kind": "jsonl", "path": "-"}


def test_prometheus_scrapes_the_service_of_compose() -> None:
    prometheus, compose = read(DEPLOY / "prometheus.yml"), read(DEPLOY / "compose.yaml")
    (job,) = prometheus["scrape_configs"]
    host, _, port = job["static_configs"][0]["targets"][0].partition(":")
    assert host in compose["services"]
    assert compose["services"][host]["ports"][0].endswith(f":{port}")
    mounted = {volume.split(":")[1] for volume in compose["services"]["prometheus"]["volumes"]}
    assert {f"/etc/prometheus/{name}" for name in prometheus["rule_files"]} <= mounted
    secret = job["authorization"]["credentials_file"].removeprefix("/run/secrets/")
    assert secret in compose["services"]["prometheus"]["secrets"]


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    (source,) = read(DEPLOY / "grafana/datasources.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = read(DEPLOY / "grafana/dashboards.yaml")["providers"]
    volumes = read(DEPLOY / "compose.yaml")["services"]["grafana"]["volumes"]
    assert any(f":{provider['options']['path']}/" in volume for volume in volumes)


# --- Kubernetes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*MANIFESTS, *OVERLAY], ids=lambda path: path.stem)
def test_manifests_suit_the_schemas_of_kubernetes(path: Path) -> None:
    kubernetes_validate.validate(read(path), kubernetes_validate.latest_version(), strict=True)


def test_a_wrong_manifest_is_found() -> None:
    wrong = manifest("deployment")
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_the_manifests_are_all_listed_and_agree() -> None:
    listed = manifest("kustomization")
    assert {KUBERNETES / name for name in listed["resources"]} == set(MANIFESTS)
    assert [Path(name) for name in listed["configMapGenerator"][0]["files"]] == [Path("dragoman.toml")]
    deployment, hpa = manifest("deployment"), read(AUTOSCALING / "hpa.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        manifest("service")["spec"]["selector"],
        manifest("pdb")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    assert hpa["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    (metric,) = hpa["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] in FAMILIES
    assert {volume["name"] for volume in pod()["volumes"]} == {mount["name"] for mount in container()["volumeMounts"]}
    (ports, service_port) = container()["ports"], manifest("service")["spec"]["ports"][0]["targetPort"]
    assert [port["name"] for port in ports] == [service_port]
    assert {mount["mountPath"] for mount in container()["volumeMounts"]} == {"/etc/dragoman", "/run/secrets"}


def test_the_overlay_adds_the_autoscaler_to_the_base() -> None:
    overlay = read(AUTOSCALING / "kustomization.yaml")
    assert overlay["resources"] == ["../base", "hpa.yaml"]
    (patch,) = overlay["patches"]
    deployment = manifest("deployment")
    assert patch["target"] == {"kind": deployment["kind"], "name": deployment["metadata"]["name"]}
    assert yaml.safe_load(patch["patch"]) == [{"op": "remove", "path": "/spec/replicas"}]
    assert deployment["spec"]["replicas"] == read(AUTOSCALING / "hpa.yaml")["spec"]["minReplicas"]


@pytest.mark.parametrize("folder", [KUBERNETES, AUTOSCALING], ids=lambda folder: folder.name)
def test_kustomize_builds_valid_objects(folder: Path) -> None:
    if (found := shutil.which("kubectl")) is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run([found, "kustomize", folder], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    objects = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    for each in objects.values():
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
    assert ("HorizontalPodAutoscaler" in objects) == ("replicas" not in objects["Deployment"]["spec"])
    assert ("HorizontalPodAutoscaler" in objects) == (folder == AUTOSCALING)


def pod() -> Any:
    return manifest("deployment")["spec"]["template"]["spec"]


def container() -> Any:
    (only,) = pod()["containers"]
    return only


def test_probes_ask_endpoints_that_exist() -> None:
    served = {resource.canonical for resource in make_app(simulated_config()).router.resources()}
    probes = {name: container()[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["path"] for probe in probes.values()} == {"/health", "/ready"} <= served
    assert {probe["port"] for probe in probes.values()} == {container()["ports"][0]["name"]}


def test_a_pod_is_restricted_and_drains() -> None:
    security = pod()["securityContext"]
    assert security["runAsNonRoot"]
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == dict(instructions())["USER"]
    assert container()["securityContext"]["readOnlyRootFilesystem"]
    assert container()["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not pod()["automountServiceAccountToken"]
    assert not pod()["enableServiceLinks"], "DRAGOMAN_PORT would be a URL"
    pause = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod()["terminationGracePeriodSeconds"] > pause + stop_drain(KUBERNETES / "dragoman.toml")


# --- systemd ---------------------------------------------------------------------------------------------------------


def unit() -> Iterator[tuple[str, str]]:
    """The settings of the unit's service."""
    parser = ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "dragoman.service")
    yield from parser["Service"].items()


def test_the_unit_waits_for_open_streams_and_is_restricted() -> None:
    settings = dict(unit())
    assert int(settings["TimeoutStopSec"]) > stop_drain(DEPLOY / "dragoman.toml")
    assert settings["Type"] == "notify"
    assert settings["ProtectSystem"] == "strict"
    assert settings["DynamicUser"] == "yes"


def test_systemd_knows_each_setting_of_the_unit(tmp_path: Path) -> None:
    installed("systemd-analyze")
    text = (DEPLOY / "dragoman.service").read_text("utf-8")
    path = tmp_path / "dragoman.service"
    path.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if str(path) in line or "dragoman.service" in line] == []


# --- pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["behind-a-balancer", "containers", "front-ends", "kubernetes", "many-cores"])
def test_yaml_on_the_pages_is_read(name: str) -> None:
    page = (ROOT / f"docs/howto/{name}.md").read_text("utf-8")
    for block in re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        assert yaml.load(block, _StrictLoader)


def test_the_secrets_on_the_pages_are_those_of_the_configuration() -> None:
    wanted = secrets((DEPLOY / "dragoman.toml").read_text("utf-8"))
    pages = {name: (ROOT / f"docs/howto/{name}.md").read_text("utf-8") for name in ("containers", "kubernetes")}
    assert set(re.findall(r"> secrets/(\w+)", pages["containers"])) == wanted
    assert set(re.findall(r"--from-literal=(\w+)=", pages["kubernetes"])) == wanted
