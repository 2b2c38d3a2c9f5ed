"""Images of a registry on the machine, pulled for a lab that cannot reach it."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.image_files import busybox_entries, image_of, layer_of, push, tar_of
from tests.integration.registries import BASIC, PASSWORD, USER, docker_registry

from .conftest import Lab, Namespace, curl, eventually, run

pytestmark = pytest.mark.needs("docker-registry", "busybox")

PAGE = layer_of([("www/index.html", "a page of the image\n"), ("etc/passwd", "web:x:33:33::/www:/bin/sh\n")], "zstd")


def unpack(archive: bytes, directory: Path) -> None:
    subprocess.run(["tar", "--extract", "--directory", directory], input=archive, check=True)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry that demands a password."""
    system = layer_of(busybox_entries("sh", "httpd", "id", "cat", "sleep"))
    program: dict[str, Any] = {
        "Entrypoint": ["httpd", "-f", "-p", "8080"],
        "Cmd": ["-h", "/www"],
        "User": "web",
        "WorkingDir": "/www",
    }
    with docker_registry(tmp_path_factory.mktemp("registry"), has_password=True) as address:
        push(f"http://{address}", "team/app", "1", image_of(system, PAGE, **program), BASIC)
        yield address


def events(ns: Namespace, reason: str) -> str:
    return "\n".join(event["message"] for event in ns.list_all("events") if event["reason"] == reason)


def puller(lab: Lab) -> int:
    """Return the process that answers the lab's nodes: a child of the one that waits for their requests."""
    parents = {}
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (directory / "cwd").samefile(lab.state_dir / "content"):
                parents[int(directory.name)] = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
    [found] = [process for process, parent in parents.items() if parent in parents]
    return found


def test_w45_an_image_of_a_registry_with_a_pull_secret(lab: Lab, ns: Namespace, registry: str) -> None:
    ns.kubectl("create", "secret", "docker-registry", "pull", f"--docker-server={registry}",
               f"--docker-username={USER}", f"--docker-password={PASSWORD}")  # fmt: skip
    ns.kubectl("create", "deployment", "app", f"--image={registry}/team/app:1", "--replicas=2")
    eventually(lambda: "no basic auth credentials" in events(ns, "Failed"))
    ns.kubectl("patch", "serviceaccount", "default", "-p", json.dumps({"imagePullSecrets": [{"name": "pull"}]}))
    ns.kubectl("rollout", "restart", "deployment", "app")
    ns.kubectl("expose", "deployment", "app", "--port=80", "--target-port=8080")
    ns.rolled_out("deployment/app")
    ns.wait_endpoints("app", 2)
    assert curl(lab, ns.cluster_ip("app")).stdout == "a page of the image\n"
    assert ns.kubectl("exec", "deployment/app", "--", "id", "-u") == "33\n"
    eventually(lambda: f'Pulling image "{registry}/team/app:1"' in events(ns, "Pulling"))
    pulled = eventually(lambda: events(ns, "Pulled"))
    assert f'image "{registry}/team/app:1"' in pulled
    has_image = f"{registry}/team/app:1"
    eventually(lambda: all(has_image in str(node["status"].get("images")) for node in lab.api.list("/api/v1/nodes")))
    [status] = ns.pods("app=app")[0]["status"]["containerStatuses"]
    assert status["imageID"].startswith(f"{registry}/team/app@sha256:")

    # The image is there, and another pod's credentials may not be used for it.
    ns.kubectl("create", "serviceaccount", "other")
    overrides = {"spec": {"serviceAccountName": "other"}}
    for policy in ("IfNotPresent", "Never"):
        ns.kubectl("run", f"other-{policy.lower()}", f"--image={registry}/team/app:1", f"--image-pull-policy={policy}",
                   f"--overrides={json.dumps(overrides)}")  # fmt: skip
    eventually(lambda: "is not present with pull policy of Never" in events(ns, "ErrImageNeverPull"))
    eventually(lambda: "ImagePullBackOff" in ns.kubectl("get", "pod", "other-ifnotpresent"))

    os.kill(puller(lab), signal.SIGKILL)
    ns.kubectl("run", "again", f"--image={registry}/team/app:1", "--image-pull-policy=Always")
    ns.ready("again")

    # The files of the image as a volume of another image's container.
    volumes = [{"name": "site", "image": {"reference": f"{registry}/team/app:1"}}]
    mounts = [{"name": "site", "mountPath": "/site", "subPath": "www"}]
    script = "cat /site/index.html; touch /site/new 2>/dev/null || echo read-only"
    reader = {"name": "main", "image": "busybox", "command": ["sh", "-c", script], "volumeMounts": mounts}
    spec = {"containers": [reader], "volumes": volumes, "restartPolicy": "Never"}
    ns.apply(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader"}, "spec": spec}))
    ns.succeeded("reader")
    assert ns.kubectl("logs", "reader") == "a page of the image\nread-only\n"


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
    spec = {"containers": [{"name": "main", "image": "Not/Valid"}]}
    ns.apply(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "invalid"}, "spec": spec}))
    eventually(lambda: "is not present with pull policy of Never" in events(ns, "ErrImageNeverPull"))
    eventually(lambda: "invalid reference format" in events(ns, "InspectFailed"))
    for reason in ("ErrImageNeverPull", "InvalidImageName"):
        eventually(lambda reason=reason: reason in ns.kubectl("get", "pods"))


def test_a_changed_hosts_toml_counts_for_the_next_pull(lab: Lab, ns: Namespace, registry: str) -> None:
    ns.kubectl("create", "secret", "docker-registry", "pull", "--docker-server=localhost:1",
               f"--docker-username={USER}", f"--docker-password={PASSWORD}")  # fmt: skip
    overrides = {"spec": {"imagePullSecrets": [{"name": "pull"}]}}
    run_app = ("--image=localhost:1/team/app:1", f"--overrides={json.dumps(overrides)}")
    ns.kubectl("run", "before", *run_app)
    eventually(lambda: "connect: connection refused" in events(ns, "Failed"))
    directory = lab.state_dir / "registries" / "localhost:1"
    directory.mkdir(parents=True)
    (directory / "hosts.toml").write_text(f'server = "http://{registry}"\n')
    ns.kubectl("run", "after", *run_app)
    ns.ready("after")


def test_images_are_pulled_saved_removed_and_loaded_by_commands(
    lab: Lab, ns: Namespace, registry: str, tmp_path: Path
) -> None:
    def image(*argv: object, env: dict[str, str] | None = None) -> str:
        result = run(*lab.argv("image", *argv), env=env)
        assert result.returncode == 0, result.stderr
        return result.stdout

    name = f"{registry}/team/app:1"
    auth = BASIC.removeprefix("Basic ")
    (tmp_path / "config.json").write_text(json.dumps({"auths": {registry: {"auth": auth}}}))
    image("pull", name, env={**os.environ, "DOCKER_CONFIG": str(tmp_path)})
    assert name in image("list")
    image("save", name, "--output", tmp_path / "app.tar")
    image("remove", name)
    assert name not in image("list")
    refused = run(*lab.argv("image", "remove", name))
    assert (refused.returncode, refused.stderr) == (1, f"bridgehead: no such image: {name}\n")
    refused = run(*lab.argv("image", "save", name, "--output", tmp_path / "app.tar"))
    assert (refused.returncode, refused.stderr) == (1, f"bridgehead: no such image: {name}\n")
    assert run(*lab.argv("image", "save", name, "--output", tmp_path / "none.tar")).returncode == 1
    assert not (tmp_path / "none.tar").exists()
    refused = run(*lab.argv("image", "load", tmp_path / "config.json"))
    assert (
        refused.stderr
        == f"bridgehead: {tmp_path}/config.json: not an archive of images: no tar file, compressed or not\n"
    )
    (tmp_path / "app.tar.gz").write_bytes(gzip.compress((tmp_path / "app.tar").read_bytes()))
    piped = run("sh", "-c", 'cat "$0" | "$@"', tmp_path / "app.tar.gz", *lab.argv("image", "load", "/dev/stdin"))
    assert piped.stdout == f"{name}\n", piped.stderr
    (tmp_path / "root").mkdir()
    unpack(tar_of(busybox_entries("echo")), tmp_path / "root")
    assert image("load", tmp_path / "root", "--tag", "local/echo:1") == "docker.io/local/echo:1\n"
    ns.kubectl("run", "web", f"--image={name}", "--image-pull-policy=Never")
    ns.kubectl("run", "echo", "--image=local/echo:1", "--restart=Never", "--command", "--", "echo", "hello")
    ns.ready("web")
    ns.succeeded("echo")
    assert ns.kubectl("logs", "echo") == "hello\n"
    image("remove", name)  # while it runs: its container keeps what it has not read yet
    assert ns.kubectl("exec", "web", "--", "cat", "/www/index.html") == "a page of the image\n"


@pytest.mark.needs("buildah")
def test_an_image_is_built_from_one_that_the_lab_has(lab: Lab, ns: Namespace, tmp_path: Path) -> None:
    # A storage beside the user's own; with vfs, because the test's directory can be an overlay itself.
    storage = {"driver": "vfs", "graphroot": str(tmp_path / "graph"), "runroot": str(tmp_path / "run")}
    (tmp_path / "storage.conf").write_text(
        "[storage]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in storage.items())
    )
    env = {**os.environ, "CONTAINERS_STORAGE_CONF": str(tmp_path / "storage.conf")}
    root, context = tmp_path / "root", tmp_path / "context"
    root.mkdir()
    context.mkdir()
    unpack(tar_of(busybox_entries("sh", "cat")), root)
    (context / "page").write_text("a page of the context\n")
    (context / "file").write_text(
        'ARG BASE=missing\nFROM $BASE\nCOPY page /page\nRUN cat /page > /copied\nCMD ["cat", "/copied"]\n'
    )
    assert run(*lab.argv("image", "load", root, "--tag", "local/busybox:1")).returncode == 0
    build = lab.argv("image", "build", context, "-t", "local/built:1", "-f", "file", "--build-arg=BASE=local/busybox:1")
    built = run(*build, env=env)
    assert (built.returncode, built.stdout) == (0, "docker.io/local/built:1\n"), built.stderr
    ns.kubectl("run", "built", "--image=local/built:1", "--restart=Never", "--image-pull-policy=Never")
    ns.succeeded("built")
    assert ns.kubectl("logs", "built") == "a page of the context\n"
    refused = run(*lab.argv("image", "build", tmp_path / "none", "-t", "local/none:1"), env=env)
    assert (refused.returncode, refused.stderr) == (
        1,
        f"bridgehead: {tmp_path / 'none'} is no directory\n",
    )
