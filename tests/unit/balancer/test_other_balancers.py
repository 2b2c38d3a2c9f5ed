"""Detection of pods of a real MetalLB or OpenELB, to which this balancer leaves the Services."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.balancer.other_balancers import class_of, find_other, stand_ins
from bridgehead.client.codec import codec_of
from bridgehead.objects.core import Container, Pod
from bridgehead.objects.kinds import PODS

PULLED = "quay.io/metallb/controller@sha256:" + "0" * 64


def pod(
    image: str = "quay.io/metallb/controller:v0.15.2",
    image_id: str = PULLED,
    *,
    name: str = "controller-x",
    ready: bool = True,
    running: bool = True,
    phase: str = "Running",
    args: tuple[str, ...] = (),
) -> Pod:
    state: dict[str, Any] = {"running": {}} if running else {"waiting": {"reason": "CrashLoopBackOff"}}
    document = {
        "metadata": {"namespace": "metallb-system", "name": name, "uid": name},
        "spec": {"containers": [{"name": "c", "image": image, "args": list(args)}, {"name": "sidecar", "image": "a"}]},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"name": "c", "image": image, "imageID": image_id, "state": state}],
        },
    }
    return codec_of(PODS).decode_object(msgspec.json.encode(document))


@pytest.mark.parametrize(
    "image",
    [
        "quay.io/metallb/controller:v0.15.2",
        "quay.io/metallb/speaker",
        "mirror.example.com/metallb/speaker@sha256:" + "0" * 64,
        "rancher/mirrored-metallb-controller:v0.13.7",
        "docker.io/bitnami/metallb-speaker:0.14",
        "kubesphere/openelb:v0.5.1",
        "kubesphere/openelb-controller:v0.6.0",
        "kubesphere/openelb-speaker:v0.6.0",
        "openelb-manager",
    ],
)
def test_images_of_both_projects(image: str) -> None:
    found = pod(image)
    assert find_other([found], "") is found


@pytest.mark.parametrize(
    "image",
    [
        "quay.io/frrouting/frr:9",
        "bridgehead/balancer:1",
        "example.com/metallb/controller-docs",
        "openelb/agent",
        "myopenelb",
    ],
)
def test_other_images(image: str) -> None:
    assert find_other([pod(image)], "") is None


def test_stand_ins_are_not_real() -> None:
    stand_in = pod(image_id="bridgehead-stand-in://metallb-controller:v0.15.2")
    assert find_other([stand_in], "") is None
    assert stand_ins([stand_in, pod(name="real")]) == {"controller-x"}


def test_a_pod_counts_from_ready_to_its_end() -> None:
    """A controller that fails again and again must not move the addresses each time."""
    starting = pod(ready=False)
    assert find_other([starting], "") is None
    assert find_other([starting], "", known=["controller-x"]) is starting
    assert find_other([pod(running=False)], "", known=["controller-x"]) is None
    assert find_other([pod(phase="Succeeded")], "", known=["controller-x"]) is None


def test_the_first_by_name() -> None:
    first, second = pod(name="a"), pod(name="b")
    assert find_other([second, first], "") is first


def test_a_balancer_of_another_class_may_run_beside() -> None:
    theirs = pod(args=("--port=7472", "--lb-class=metallb"))
    assert find_other([theirs], "") is None
    assert find_other([theirs], "metallb") is theirs


@pytest.mark.parametrize(
    ("args", "expected"),
    [(("-lb-class", "a"), "a"), (("--lb-class=b",), "b"), (("--lb-class",), ""), (("--lb-classes=b", "lb-class"), "")],
)
def test_classes(args: tuple[str, ...], expected: str) -> None:
    assert class_of(Container(name="c", args=args)) == expected
