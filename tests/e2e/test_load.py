"""`bridgehead load`: the image that was just built, from real storage of buildah, and from archives and directories.

Docker and Podman were tried by hand (docs/images.md); tests/unit/images/test_container_engines.py has their commands.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.image_files import busybox_entries, layer_of

from .conftest import Lab, Namespace, curl, eventually, run

pytestmark = pytest.mark.needs("buildah", "busybox")


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for roots, and storage of buildah that `load` finds, too."""
    storage = tmp_path / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/graph"\nrunroot = "{tmp_path}/run"\n')
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
    root = tmp_path / "root"
    root.mkdir()
    system = layer_of(busybox_entries("sh", "httpd", "sleep"), "")
    subprocess.run(["tar", "--extract", "--directory", root], input=system.content, check=True)
    return root


def write_page(root: Path, text: str) -> None:
    (root / "www").mkdir(exist_ok=True)
    (root / "www" / "index.html").write_text(f"{text}\n")


def build(root: Path, name: str) -> None:
    """Do what `buildah build` does with a Dockerfile of FROM scratch, COPY and CMD."""
    container = run("buildah", "from", "scratch").stdout.strip()
    for command in (
        ["copy", container, root, "/"],
        ["config", "--cmd", json.dumps(["httpd", "-f", "-p", "80", "-h", "/www"]), container],
        ["commit", "--quiet", "--rm", container, name],
    ):
        done = run("buildah", *command)
        assert done.returncode == 0, done.stderr


def load(lab: Lab, *arguments: object, code: int = 0) -> str:
    done = run(*lab.argv("load", *arguments))
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def test_an_image_is_built_loaded_and_replaces_the_pods_of_the_former_one(
    lab: Lab, ns: Namespace, buildah: Path
) -> None:
    write_page(buildah, "one")
    build(buildah, "shop/page:1")
    first = load(lab, "shop/page:1")
    assert first.startswith("loaded docker.io/shop/page:1 (")
    assert first.splitlines()[0].endswith((" MB) from buildah's storage", " MB) from podman's storage"))  # the same
    assert "no Deployment, StatefulSet or DaemonSet uses it yet" in first
    ns.kubectl("create", "deployment", "page", "--image=shop/page:1")
    ns.kubectl("expose", "deployment", "page", "--port=80")
    ns.rolled_out("deployment/page")
    ns.wait_endpoints("page", 1)
    assert curl(lab, ns.cluster_ip("page")).stdout == "one\n"

    write_page(buildah, "two")
    build(buildah, "shop/page:1")
    advice = f"kubectl -n {ns.name} rollout restart deployment/page"
    for engine in filter(shutil.which, ("buildah", "podman")):
        assert load(lab, "shop/page:1", "--from", engine).splitlines()[0].endswith(f" from {engine}'s storage")
    assert load(lab, "shop/page:1").splitlines()[1:] == [f"next: {advice}", "--restart does it"]
    assert curl(lab, ns.cluster_ip("page")).stdout == "one\n"
    assert load(lab, "shop/page:1", "--restart").splitlines()[1:] == [f"restarted deployment/page of {ns.name}"]
    eventually(lambda: curl(lab, ns.cluster_ip("page")).stdout == "two\n")
    ns.rolled_out("deployment/page")


def test_archives_layouts_and_roots_are_found_by_their_form(
    lab: Lab, ns: Namespace, buildah: Path, tmp_path: Path
) -> None:
    write_page(buildah, "page")
    build(buildah, "page:3")
    for transport, path in (("oci", "layout"), ("oci-archive", "oci.tar"), ("docker-archive", "docker.tar")):
        done = run("buildah", "push", "page:3", f"{transport}:{tmp_path / path}:example.com/{path}:3")
        assert done.returncode == 0, done.stderr
        assert load(lab, tmp_path / path).startswith(f"loaded example.com/{path}:3 (")
    assert load(lab, tmp_path / "oci.tar", "--tag", "own:1").startswith("loaded docker.io/library/own:1 (")
    assert load(lab, buildah, "--tag", "root:1").splitlines()[0].endswith(f" from {buildah}")
    ns.kubectl("run", "root", "--image=root:1", "--", "sh", "-c", "cat /www/index.html 2>/dev/null || sleep 3600")
    eventually(
        lambda: "not found" in ns.kubectl("logs", "root") or ns.pods("run=root")[0]["status"].get("containerStatuses")
    )


def test_mistakes_are_one_line(lab: Lab, buildah: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-daemon")
    error = load(lab, "no-such:1", code=1)
    assert error.startswith("bridgehead: no image 'no-such:1' (")
    assert "buildah: " in error
    build(buildah, "named:1")
    identity = run("buildah", "inspect", "--type", "image", "--format", "{{.FromImageID}}", "named:1").stdout.strip()
    assert "is the id of an image, which pods cannot name" in load(lab, identity[:12], code=1)
    assert load(lab, identity, "--tag", "named:2").startswith("loaded docker.io/library/named:2 (")
    (tmp_path / "context").mkdir()
    error = load(lab, tmp_path / "context", code=1)
    assert "--tag NAME loads it as a root file system" in error or "neither a file nor a name" in error
    monkeypatch.chdir(tmp_path)
    error = load(lab, "context", code=1)
    assert "context is a directory without an OCI layout: --tag NAME" in error
    assert "image build -t NAME context` builds its Dockerfile" in error
    (tmp_path / "broken.tar").write_bytes(b"no archive")
    for wrong in ("broken.tar", "Not An Image", "x" * 5000):
        error = load(lab, wrong, code=1)
        assert error.count("\n") == 1, error
    assert load(lab, "page:1", "--from", "podman", code=1).startswith("bridgehead: no image 'page:1' (podman")
    assert os.listdir(tmp_path / "context") == []


def test_a_stopped_lab_has_the_image_at_its_next_start(buildah: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab("load", tmp_path_factory.mktemp("load") / "lab")
    try:
        lab.start("--nodes=1", "--no-balancer", "--offline")
        lab.stop()
        write_page(buildah, "page")
        build(buildah, "page:4")
        assert load(lab, "page:4").splitlines()[1] == "the lab is stopped; its next `bridgehead up` has the image"
        assert "docker.io/library/page:4" in lab.command("image", "list").stdout
    finally:
        lab.stop("--delete")
