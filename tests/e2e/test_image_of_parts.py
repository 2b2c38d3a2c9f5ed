"""The container image of `make images`: built, pushed to a registry, and run in a lab as it is run elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.images.manifests import digest_of
from tests.integration.registries import docker_registry

from .conftest import Lab, Namespace, eventually

pytestmark = pytest.mark.needs("docker-registry", "skopeo", "apt-get", "dpkg-deb", "strip", "dig")

ROOT = Path(__file__).parents[2]
LIMIT = 120_000_000
SECONDS = 300
# Programs that proxies and speakers call, and modules that they import late.
PROGRAMS = [
    ["nft", "--version"],
    ["sh", "-c", "ipset --version | grep v7"],  # its exit code is the kernel's answer
    ["keepalived", "--version"],
    *([name, "--version"] for name in ("iptables", "iptables-nft-restore", "iptables-legacy-save", "ip6tables-legacy")),
    ["python3", "-c", "import bridgehead.balancer.bgp.exabgp_main, bridgehead.client.exec_plugin, exabgp.reactor.loop"],
    ["python3", "-c", "import frozenlist._frozenlist, aiohttp._http_parser, uvloop.loop, yaml._yaml, msgspec._core"],
    ["python3", "-c", "import ssl; assert len(ssl.create_default_context().get_ca_certs()) > 50"],
    *(["bridgehead", part, "--help"] for part in ("proxy", "speaker", "balancer", "doctor", "rules")),
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The OCI archive of the image."""
    assert pytestconfig.cache is not None
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    downloads = pytestconfig.cache.mkdir("debian-image")
    argv = [sys.executable, "-m", "deploy.image", "--output", str(archive), "--downloads", str(downloads)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return archive


@pytest.fixture(scope="module")
def image(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image's name in a registry."""
    with docker_registry(tmp_path_factory.mktemp("registry")) as address:
        name = f"{address}/bridgehead:test"
        argv = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"oci-archive:{archive}", f"docker://{name}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        yield name


def documents(archive: Path) -> tuple[dict[str, Any], dict[str, Any], list[tarfile.TarInfo]]:
    """The manifest, the configuration, and the members of all layers of an image."""
    with tarfile.open(archive) as outer:

        def blob(digest: str) -> Any:
            return outer.extractfile(f"blobs/{digest.replace(':', '/')}")

        index = outer.extractfile("index.json")
        assert index is not None
        manifest = json.load(blob(json.load(index)["manifests"][0]["digest"]))
        members = []
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer["digest"]), mode="r|gz") as files:
                members += list(files)
        return manifest, json.load(blob(manifest["config"]["digest"])), members


def test_the_image_is_small_and_the_same_each_time(archive: Path) -> None:
    _, config, members = documents(archive)
    assert sum(member.size for member in members) <= LIMIT
    assert {(member.uid, member.gid) for member in members} == {(0, 0)}
    assert len({member.mtime for member in members}) == 1
    assert config["config"]["Entrypoint"] == ["bridgehead"]
    # The program's layer, made again by another process. `make images ARGS=--check` makes all of them twice.
    again = "import sys; from pathlib import Path; from deploy.image import contents, layers\n"
    again += "layer = layers.program_layer(Path('src/bridgehead').absolute(), sys.argv[1], contents.PARTS)\n"
    again += "sys.stdout.buffer.write(layer.archive())"
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    written = subprocess.run([sys.executable, "-c", again, python], cwd=ROOT, check=True, capture_output=True).stdout
    assert digest_of(written) == config["rootfs"]["diff_ids"][-1]


def dns_pod(image: str) -> str:
    """A DNS server of the image, with as few rights as it needs."""
    container = {
        "name": "dns",
        "image": image,
        "args": ["dns", "--no-upstream"],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "securityContext": {
            "runAsUser": 65532,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    sysctls = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
    spec = {"containers": [container], "securityContext": {"sysctls": sysctls}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dns"}, "spec": spec})


def test_a_dns_server_of_the_image_answers(lab: Lab, ns: Namespace, image: str) -> None:
    watched = "services,pods,namespaces,endpointslices.discovery.k8s.io"
    lab.kubectl("create", "clusterrole", ns.name, "--verb=list,watch", f"--resource={watched}")
    lab.kubectl(
        "create", "clusterrolebinding", ns.name, f"--clusterrole={ns.name}", f"--serviceaccount={ns.name}:default"
    )
    ns.apply(dns_pod(image))
    ns.ready("dns")
    address = ns.get("pods", "dns")["status"]["podIP"]
    name = "kubernetes.default.svc.cluster.local"
    answer = eventually(lambda: lab.inside("dig", f"@{address}", "+short", name).stdout.strip())
    assert answer == Namespace(lab, "default").cluster_ip("kubernetes")
    for argv in PROGRAMS:
        done = ns.execute("dns", *argv)
        assert done.returncode == 0, (argv, done.stderr)
    refused = ns.execute("dns", "bridgehead", "controllers")
    assert (refused.returncode, refused.stderr) == (
        1,
        "bridgehead controllers: not a part of this installation: the module bridgehead.controllers is missing\n",
    )
