"""The effective security context of containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.kubelet.containers.security_context import plan_security
from bridgehead.kubelet.errors import SecurityRefused
from bridgehead.kubelet.runtimes.runtime import Image, Seccomp, Security
from tests.unit.kubelet.pod_factory import make_pod

PROFILES = Path("/var/lib/kubelet/seccomp")
IN_POD = '(pod: "p_ns(u)", container: app)'
DEFAULT = Security()


def plan(pod, user=""):
    return plan_security(pod, pod.spec.containers[0], Image(name="i", id="i", source="store", user=user), PROFILES)


@pytest.mark.parametrize(
    ("of_pod", "own", "expected"),
    [
        (None, None, DEFAULT),
        ({}, {}, DEFAULT),
        ({"runAsUser": 1, "runAsGroup": 2}, {}, Security(user=1, group=2)),
        ({"runAsUser": 1, "runAsGroup": 2}, {"runAsUser": 0, "runAsGroup": 0}, Security(user=0, group=0)),
        ({"supplementalGroups": [5, 6], "fsGroup": 4}, None, Security(supplemental_groups=(4, 5, 6))),
        ({"supplementalGroups": [5, 4, 5], "fsGroup": 4}, None, Security(supplemental_groups=(4, 5))),
        ({"fsGroup": 0}, None, Security(supplemental_groups=(0,))),
        ({"supplementalGroupsPolicy": "Strict"}, None, Security(strict_groups=True)),
        ({"supplementalGroupsPolicy": "Merge"}, None, DEFAULT),
        (
            None,
            {"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}},
            Security(add_capabilities=("NET_ADMIN",), drop_capabilities=("ALL",)),
        ),
        (None, {"allowPrivilegeEscalation": False}, Security(no_new_privileges=True)),
        (None, {"allowPrivilegeEscalation": True}, DEFAULT),
        (None, {"readOnlyRootFilesystem": True}, Security(read_only_root=True)),
        (None, {"procMount": "Unmasked"}, Security(unmasked_proc=True)),
        (None, {"procMount": "Default"}, DEFAULT),
        (None, {"privileged": True}, Security(privileged=True, seccomp=Seccomp(kind="Unconfined"))),
        (
            None,
            {"privileged": True, "seccompProfile": {"type": "RuntimeDefault"}},
            Security(privileged=True, seccomp=Seccomp(kind="Unconfined")),
        ),
        ({"seccompProfile": {"type": "Unconfined"}}, None, Security(seccomp=Seccomp(kind="Unconfined"))),
        ({"seccompProfile": {"type": "Unconfined"}}, {"seccompProfile": {"type": "RuntimeDefault"}}, DEFAULT),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}},
            None,
            Security(seccomp=Seccomp(kind="Localhost", path="/var/lib/kubelet/seccomp/a/b.json")),
        ),
        ({"runAsNonRoot": True, "runAsUser": 7}, None, Security(user=7)),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, DEFAULT),
        ({"runAsNonRoot": False}, {"runAsUser": 0}, Security(user=0)),
    ],
)
def test_the_security_context_is_merged_from_pod_and_container(of_pod, own, expected):
    assert plan(make_pod(of_pod, own)) == expected


@pytest.mark.parametrize(
    ("user", "expected"),
    [("", None), ("0", 0), ("1000", 1000), ("1000:2000", 1000), ("nginx", None), ("nginx:nginx", None)],
)
def test_the_images_user_applies_by_default(user, expected):
    assert plan(make_pod(), user).user == expected
    assert plan(make_pod({"runAsUser": 5}), user).user == 5


@pytest.mark.parametrize(
    ("of_pod", "own", "user", "message"),
    [
        ({"runAsNonRoot": True}, None, "", f"container has runAsNonRoot and image will run as root {IN_POD}"),
        (None, {"runAsNonRoot": True}, "0", f"container has runAsNonRoot and image will run as root {IN_POD}"),
        (None, {"runAsNonRoot": True}, "0:5", f"container has runAsNonRoot and image will run as root {IN_POD}"),
        (None, {"runAsNonRoot": True}, "00", f"container has runAsNonRoot and image will run as root {IN_POD}"),
        ({"runAsNonRoot": True}, {"runAsUser": 0}, "1", f"container's runAsUser breaks non-root policy {IN_POD}"),
        ({"runAsNonRoot": True, "runAsUser": 0}, {}, "1", f"container's runAsUser breaks non-root policy {IN_POD}"),
        (
            {"runAsNonRoot": False},
            {"runAsNonRoot": True},
            "nginx:www",
            "container has runAsNonRoot and image has non-numeric user (nginx), "
            f"cannot verify user is non-root {IN_POD}",
        ),
    ],
)
def test_root_is_refused_with_run_as_non_root(of_pod, own, user, message):
    with pytest.raises(SecurityRefused) as refused:
        plan(make_pod(of_pod, own), user)
    assert str(refused.value) == message


def test_a_numeric_non_root_user_of_the_image_is_accepted():
    assert plan(make_pod({"runAsNonRoot": True}), "1000:0").user == 1000


def test_init_containers_have_security_contexts():
    init = [{"name": "first", "securityContext": {"allowPrivilegeEscalation": False}}]
    made = make_pod({"runAsUser": 9}, initContainers=init)
    image = Image(name="i", id="i", source="store")
    expected = Security(user=9, no_new_privileges=True)
    assert plan_security(made, made.spec.init_containers[0], image, PROFILES) == expected
