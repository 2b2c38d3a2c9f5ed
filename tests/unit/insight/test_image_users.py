"""Workloads that use an image."""

from __future__ import annotations

from bridgehead.insight.image_users import ImageUser, find_users
from bridgehead.objects.meta import ObjectMeta, PodTemplate


def workload(name: str, *images: str, init: tuple[str, ...] = (), policy: str = "IfNotPresent"):
    spec = {
        "containers": [{"name": "c", "image": image, "imagePullPolicy": policy} for image in images],
        "initContainers": [{"name": "i", "image": image} for image in init],
    }
    return "deployment", ObjectMeta(name=name, namespace="shop"), PodTemplate(spec=spec)


def test_users_are_found_by_the_full_name_of_the_image() -> None:
    workloads = [
        workload("short", "api:1"),
        workload("full", "docker.io/library/api:1"),
        workload("second", "nginx", "index.docker.io/library/api:1"),
        workload("init", "nginx", init=("api:1",)),
        workload("other-tag", "api:2"),
        workload("other-registry", "localhost/api:1"),
        workload("invalid", "Not An Image"),
        ("daemonset", ObjectMeta(name="empty", namespace="shop"), PodTemplate()),
    ]
    found = find_users(workloads, ["docker.io/library/api:1"])
    assert [user.name for user in found] == ["short", "full", "second", "init"]
    assert found[0] == ImageUser("deployment", "shop", "short", always_pulls=False)
    assert found[0].restart == "kubectl -n shop rollout restart deployment/short"


def test_only_the_images_own_container_counts_for_the_policy() -> None:
    [user] = find_users([workload("api", "api:latest", policy="Always")], ["docker.io/library/api:latest"])
    assert user.always_pulls
    [user] = find_users([workload("api", "nginx", init=("api",), policy="Always")], ["docker.io/library/api:latest"])
    assert not user.always_pulls
