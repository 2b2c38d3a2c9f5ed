"""Image references, and what each image of the tutorials is on a node."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from bridgehead.images import archives
from bridgehead.images.references import parse_reference
from bridgehead.images.store.content import ContentStore
from bridgehead.kubelet.runtimes.image_resolver import ImageDirectories, resolve_image
from bridgehead.kubelet.runtimes.runtime import ImageUnavailable
from tests.image_files import archive_of, image_of, layer_of

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.12", "docker.io/library/nginx:1.12"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/library/nginx", "docker.io/library/nginx:latest"),
        ("ikubernetes/myapp:v1", "docker.io/ikubernetes/myapp:v1"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:x", "localhost:5000/app:x"),
        ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9"),
        (f"nginx@{DIGEST}", f"docker.io/library/nginx@{DIGEST}"),
        (f"nginx:1.12@{DIGEST}", f"docker.io/library/nginx:1.12@{DIGEST}"),
        ("[::1]:5000/a/b__c-d", "[::1]:5000/a/b__c-d:latest"),
    ],
)
def test_references_are_normalized(name: str, normal: str) -> None:
    assert str(parse_reference(name)) == normal


@pytest.mark.parametrize(
    "name", ["", "Nginx", "nginx:", "nginx:a b", "/nginx", "a//b", "../etc", "a/../b", "nginx@sha256:12", "-a", "a:b:c"]
)
def test_invalid_references_are_refused(name: str, tmp_path: Path) -> None:
    assert parse_reference(name) is None
    with pytest.raises(ImageUnavailable, match="invalid reference format"):
        resolve_image(name, ImageDirectories(str(tmp_path)))


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("registry.cn-beijing.aliyuncs.com/wangxiaochun/pod-test:v0.1", "bridgehead-stand-in://pod-test:v0.1"),
        ("wangxiaochun/pod-test:v0.2", "bridgehead-stand-in://pod-test:v0.2"),
        ("registry.cn-beijing.aliyuncs.com/wangxiaochun/admin-box:v0.1", "bridgehead-stand-in://admin-box:v0.1"),
        ("ikubernetes/admin-box", "bridgehead-stand-in://admin-box:latest"),
        ("ikubernetes/myapp:v1", "bridgehead-stand-in://myapp:v1"),
        ("ikubernetes/myapp:v2", "bridgehead-stand-in://myapp:v2"),
        ("nginx", "bridgehead-stand-in://nginx:latest"),
        ("nginx:1.12", "bridgehead-stand-in://nginx:1.12"),
        ("registry.k8s.io/nginx-slim:0.21", "bridgehead-stand-in://nginx-slim:0.21"),
        ("nginx:1.25.3-alpine", "bridgehead-stand-in://nginx:1.25.3-alpine"),
        ("mirror.example/dockerhub/library/nginx:alpine", "bridgehead-stand-in://nginx:alpine"),
        (f"nginx@{DIGEST}", "bridgehead-stand-in://nginx:latest"),
        ("httpd", "bridgehead-stand-in://httpd:latest"),
        ("redis", "bridgehead-stand-in://redis:latest"),
        ("redis:7.2-bookworm", "bridgehead-stand-in://redis:7.2-bookworm"),
        ("busybox", "bridgehead-stand-in://busybox:latest"),
        ("busybox:1.28", "bridgehead-stand-in://old-busybox:1.28"),
        ("busybox:1.28.4-glibc", "bridgehead-stand-in://old-busybox:1.28.4-glibc"),
        ("busybox:1.9", "bridgehead-stand-in://old-busybox:1.9"),
        ("busybox:1.29", "bridgehead-stand-in://busybox:1.29"),
        ("busybox:1", "bridgehead-stand-in://busybox:1"),
        ("alpine:3.8", "bridgehead-stand-in://old-alpine:3.8"),
        ("alpine:3.18", "bridgehead-stand-in://alpine:3.18"),
        ("alpine:edge", "bridgehead-stand-in://alpine:edge"),
        ("cirros:0.4.0", "bridgehead-stand-in://old-cirros:0.4.0"),
        ("cirros/cirros:0.6.2", "bridgehead-stand-in://cirros:0.6.2"),
        ("cirros", "bridgehead-stand-in://old-cirros:latest"),
        ("gcr.io/google-samples/node-hello:1.0", "bridgehead-stand-in://node-hello:1.0"),
        ("registry.k8s.io/pause:3.10", "bridgehead-stand-in://pause:3.10"),
        ("quay.io/metallb/controller:v0.15.2", "bridgehead-stand-in://metallb-controller:v0.15.2"),
        ("quay.io/metallb/speaker:main", "bridgehead-stand-in://metallb-speaker:main"),
        ("quay.io/frrouting/frr:9.1.0", "bridgehead-stand-in://frr:9.1.0"),
        ("kubesphere/openelb:v0.5.1", "bridgehead-stand-in://openelb-controller:v0.5.1"),
        ("kubesphere/openelb-speaker:master", "bridgehead-stand-in://openelb-speaker:master"),
        (
            f"registry.k8s.io/ingress-nginx/kube-webhook-certgen:v1.6.0@{DIGEST}",
            "bridgehead-stand-in://kube-webhook-certgen:v1.6.0",
        ),
        ("registry.k8s.io/e2e-test-images/agnhost:2.53", "bridgehead-stand-in://agnhost:2.53"),
        ("registry.k8s.io/e2e-test-images/nautilus:1.7", "bridgehead-stand-in://nautilus:1.7"),
        ("registry.k8s.io/e2e-test-images/httpd:2.4.38-4", "bridgehead-stand-in://httpd:2.4.38-4"),
        ("registry.k8s.io/e2e-test-images/nginx:1.14-4", "bridgehead-stand-in://nginx:1.14-4"),
        ("registry.k8s.io/e2e-test-images/busybox:1.37.0-1", "bridgehead-stand-in://busybox:1.37.0-1"),
        ("registry.k8s.io/e2e-test-images/jessie-dnsutils:1.7", "bridgehead-stand-in://netshoot:1.7"),
        ("bridgehead/proxy:0.1.0", "bridgehead-part://proxy"),
        ("registry.k8s.io/kube-proxy:v1.36.0", "bridgehead-part://proxy"),
    ],
)
def test_images_are_resolved(name: str, id: str, tmp_path: Path) -> None:
    found = resolve_image(name, ImageDirectories(str(tmp_path)))
    assert (found.image.name, found.image.id) == (name, id)
    assert (
        found.image.source == {"stand-in": "stand-in", "part": "part"}[id.split("://")[0].removeprefix("bridgehead-")]
    )
    assert bool(found.image.description) == (found.image.source == "stand-in")


@pytest.mark.parametrize(
    "name",
    [
        "quay.io/metallb/controller:v1.15",
        "nginx:1.161",  # the mistyped tag of the Kubernetes documentation's failing rollout
        "ikubernetes/myapp:v99",
        "quay.io/somebody/nginx",
        "mysql:8.0",
        "registry.cn-beijing.aliyuncs.com/wangxiaochun/wordpress:php8.2-apache",
        "example.com/team/app:1",
    ],
)
def test_unknown_images_are_unavailable(name: str, tmp_path: Path) -> None:
    with pytest.raises(ImageUnavailable) as caught:
        resolve_image(name, ImageDirectories(str(tmp_path)))
    assert str(tmp_path) in str(caught.value)
    assert "pod-test" in str(caught.value)
    assert "old-busybox" not in str(caught.value)  # no image has that name


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("nginx", "nginx"),
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.12", "nginx:1.12"),
        ("docker.io/library/nginx:1.12", "nginx:1.12"),
        ("example.com/team/app:1", "example.com/team/app:1"),
    ],
)
def test_the_store_overrides_stand_ins(directory: str, name: str, tmp_path: Path) -> None:
    (tmp_path / directory / "rootfs").mkdir(parents=True)
    config = {"Entrypoint": ["/entry"], "Cmd": ["a", "b"], "Env": ["A=1", "B=x=y"], "WorkingDir": "/srv"}
    (tmp_path / directory / "image.json").write_text(json.dumps(config))
    found = resolve_image(name, ImageDirectories(str(tmp_path)))
    assert found.layers == (str(tmp_path / directory / "rootfs"),)
    assert found.image.source == "store"
    assert (found.image.entrypoint, found.image.command) == (("/entry",), ("a", "b"))
    assert found.image.env == {"A": "1", "B": "x=y"}
    assert found.image.working_dir == "/srv"


def test_a_store_image_may_lack_its_config_object(tmp_path: Path) -> None:
    (tmp_path / "app" / "rootfs").mkdir(parents=True)
    assert resolve_image("app", ImageDirectories(str(tmp_path))).image.command == ()
    (tmp_path / "app" / "image.json").write_text('{"architecture": "amd64", "config": {"Cmd": ["run"], "Env": null}}')
    assert resolve_image("app", ImageDirectories(str(tmp_path))).image.command == ("run",)
    (tmp_path / "app" / "image.json").write_text("{")
    with pytest.raises(ImageUnavailable, match="configuration"):
        resolve_image("app", ImageDirectories(str(tmp_path)))


def test_another_tag_is_not_resolved_from_the_store(tmp_path: Path) -> None:
    (tmp_path / "app" / "rootfs").mkdir(parents=True)
    with pytest.raises(ImageUnavailable):
        resolve_image("app:v2", ImageDirectories(str(tmp_path)))


def test_a_layer_that_an_image_has_twice_is_used_once(tmp_path: Path) -> None:
    """An overlay may have a directory only once; the topmost one counts."""
    one, two, empty = layer_of([("f", "1")]), layer_of([("f", "2")]), layer_of([])
    image = image_of(one, empty, two, empty, one)
    store = ContentStore(tmp_path)
    archives.load(store, io.BytesIO(archive_of("registry.example/app:1", image)))
    found = resolve_image("registry.example/app:1", ImageDirectories(str(tmp_path), str(tmp_path)))
    assert found.layers == tuple(str(store.layer_path(layer.diff_id)) for layer in (two, empty, one))


@pytest.mark.parametrize("name", ["example.com/app", "example.com/app:2", f"example.com/app@{DIGEST}"])
def test_the_reason_names_a_directory_where_the_image_would_be_found(name: str, tmp_path: Path) -> None:
    with pytest.raises(ImageUnavailable) as raised:
        resolve_image(name, ImageDirectories(str(tmp_path)))
    [directory] = [word for word in str(raised.value).replace(",", " ").split() if word.startswith(str(tmp_path))]
    Path(directory).mkdir(parents=True)
    assert resolve_image(name, ImageDirectories(str(tmp_path))).image.source == "store"
