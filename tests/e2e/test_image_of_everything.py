"""The container image of `make images ARGS=--everything`: a lab starts in it, and answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("apt-get", "dpkg-deb", "strip", "unshare")

ROOT = Path(__file__).parents[2]
SECONDS = 300
# The process gets namespaces of its own, as container runtimes make them, without a network but loopback.
ENTER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mkdir -p outside root
for kind in root run tmp; do mount -t tmpfs tmpfs $kind; done
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
ip link set lo up
pivot_root . outside
cd /
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 sh -euc "$2"
"""
FIRST_LOOK = """
bridgehead up --detach --offline --nodes 2 >&2
eval "$(bridgehead env)"
kubectl create deployment web --image=nginx --replicas=2
kubectl expose deployment web --port=80 --type=NodePort
kubectl rollout status deployment web
bridgehead wait service/web
PORT=$(kubectl get service web -o jsonpath={.spec.ports[0].nodePort})
bridgehead exec -- curl -sS --max-time 10 http://10.0.0.201:$PORT
kubectl run dig --image=busybox --restart=Never --attach --rm --quiet -- nslookup web.default.svc.cluster.local
bridgehead doctor
bridgehead down --delete
"""


@pytest.fixture
def root(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Path]:
    """The root file system of the image."""
    assert pytestconfig.cache is not None
    archive, root = tmp_path / "image.tar", tmp_path / "root"
    downloads = pytestconfig.cache.mkdir("debian-image")
    argv = [sys.executable, "-m", "deploy.image", "--everything", "--output", str(archive)]
    done = subprocess.run([*argv, "--downloads", str(downloads)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    root.mkdir()
    with tarfile.open(archive) as outer:

        def blob(digest: str) -> bytes:
            found = outer.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert found is not None
            return found.read()

        index = outer.extractfile("index.json")
        assert index is not None
        manifest = json.loads(blob(json.load(index)["manifests"][0]["digest"]))
        assert json.loads(blob(manifest["config"]["digest"]))["config"]["Cmd"] == ["up"]
        for layer in manifest["layers"]:
            subprocess.run(["tar", "-xzC", str(root)], input=blob(layer["digest"]), check=True)
    yield root
    shutil.rmtree(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems, as a container runtime does")
def test_a_lab_starts_in_the_image_of_everything(root: Path) -> None:
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--net", "--uts", "--ipc"]
    argv = [*namespaces, "--kill-child", "bash", "-c", ENTER, "enter", str(root), FIRST_LOOK]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Welcome to nginx" in done.stdout
    assert "Name:\tweb.default.svc.cluster.local" in done.stdout
    assert "Services are healthy" in done.stdout
