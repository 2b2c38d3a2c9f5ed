"""Images of a registry on the machine, pulled for a lab that cannot reach it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.image_files import busybox_entries, image_of, layer_of, push
from tests.integration.registries import BASIC, PASSWORD, USER, docker_registry

from .conftest import Lab, Namespace, curl, eventually

pytestmark = pytest.mark.needs("docker-registry", "busybox")

PAGE = layer_of([("www/index.html", "a page of the image\n"), ("etc/passwd", "web:x:33:33::/www:/bin/sh\n")], "zstd")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry that demands a password."""
    system = layer_of(busybox_entries("sh", "httpd", "id", "cat", "sleep"))
    program = {"Entrypoint": ["httpd", "-f", "-p", "8080"], "Cmd": ["-h", "/www"], "User": "web", "WorkingDir": "/www"}
    with docker_registry(tmp_path_factory.mktemp("registry"), has_password=True) as address:
        push(f"http://{address}", "team/app", "1", image_of(system, PAGE, **program), BASIC)
        yield address


def events(ns: Namespace, reason: str) -> str:
    return "\n".join(event["message"] for event in ns.list_all("events") if event["reason"] == reason)


def test_w45_an_image_of_a_registry_with_a_pull_secret(lab: Lab, ns: Namespace, registry: str) -> None:
    ns.kubectl("create", "secret", "docker-registry", "pull", f"--docker-server={registry}",
               f"--docker-username={USER}", f"--docker-password={PASSWORD}")  # fmt: skip
    ns.kubectl("create", "deployment", "app", f"--image={registry}/team/app:1", "--replicas=2")
    eventually(lambda: "401 Unauthorized" in events(ns, "Failed"))
    ns.kubectl("patch", "serviceaccount", "default", "-p", json.dumps({"imagePullSecrets": [{"name": "pull"}]}))
    ns.kubectl("rollout", "restart", "deployment", "app")
    ns.kubectl("expose", "deployment", "app", "--port=80", "--target-port=8080")
    ns.rolled_out("deployment/app")
    ns.wait_endpoints("app", 2)
    assert curl(lab, ns.cluster_ip("app")) == "a page of the image\n"
    assert ns.kubectl("exec", "deployment/app", "--", "id", "-u") == "33\n"
    eventually(lambda: f'Pulling image "{registry}/team/app:1"' in events(ns, "Pulling"))
    pulled = eventually(lambda: events(ns, "Pulled"))
    assert f'image "{registry}/team/app:1"' in pulled
    [status] = ns.pods("app=app")[0]["status"]["containerStatuses"]
    assert status["imageID"].startswith(f"{registry}/team/app@sha256:")


def test_w45_a_wrong_tag_has_the_registrys_reason(ns: Namespace, registry: str) -> None:
    ns.kubectl("create", "secret", "docker-registry", "pull", f"--docker-server={registry}",
               f"--docker-username={USER}", f"--docker-password={PASSWORD}")  # fmt: skip
    overrides = {"spec": {"imagePullSecrets": [{"name": "pull"}]}}
    ns.kubectl("run", "web", f"--image={registry}/team/app:2", f"--overrides={json.dumps(overrides)}")
    name = f"{registry}/team/app:2"
    eventually(lambda: f'failed to resolve reference "{name}": {name}: not found' in events(ns, "Failed"))
    eventually(lambda: "ImagePullBackOff" in ns.kubectl("get", "pod", "web"))


def test_names_and_policies_that_cannot_work_have_a_reason(ns: Namespace, registry: str) -> None:
    ns.kubectl("run", "never", f"--image={registry}/team/app:3", "--image-pull-policy=Never")
    ns.kubectl("run", "invalid", "--image=Not/Valid")
    eventually(lambda: "is not present with pull policy of Never" in events(ns, "ErrImageNeverPull"))
    eventually(lambda: "invalid reference format" in events(ns, "InspectFailed"))
    listed = ns.kubectl("get", "pods")
    assert "ErrImageNeverPull" in listed
    assert "InvalidImageName" in listed
