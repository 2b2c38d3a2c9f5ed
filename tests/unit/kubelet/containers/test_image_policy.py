"""Whether an image is pulled, with which credentials, and what Events report of it."""

from __future__ import annotations

import base64

import pytest

from bridgehead.images.errors import BadImage, Denied, NotFound, Unreachable
from bridgehead.images.references import Reference, parse_reference
from bridgehead.images.registry.docker_config import Credential, fingerprint
from bridgehead.kubelet.containers import image_policy
from bridgehead.objects.core import LocalObjectReference, Pod, PodSpec, Secret


def image() -> Reference:
    reference = parse_reference("registry.example/app:1")
    assert reference is not None
    return reference


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("store", []),
        ("part", []),
        ("registry", ["Always"]),
        ("stand-in", ["Always", "IfNotPresent"]),
        ("", ["Always", "IfNotPresent"]),
    ],
)
def test_the_policy_decides_about_a_pull(source: str, wanted: list[str]) -> None:
    policies = ("Always", "IfNotPresent", "Never")
    assert [policy for policy in policies if image_policy.is_pull_wanted(policy, source)] == wanted


def test_an_image_that_is_there_is_verified_for_a_pod_without_its_credentials() -> None:
    mine, other = Credential(username="mine", password="p"), Credential(username="other", password="p")
    assert image_policy.is_allowed((), [])
    assert image_policy.is_allowed((fingerprint(mine),), [other, mine])
    assert not image_policy.is_allowed((fingerprint(mine),), [other])
    assert not image_policy.is_allowed((fingerprint(mine),), [])
    policies = ("Always", "IfNotPresent", "Never")
    wanted = [policy for policy in policies if image_policy.is_pull_wanted(policy, "registry", is_allowed=False)]
    assert wanted == ["Always", "IfNotPresent"]


def secret(kind: str, key: str, content: bytes) -> Secret:
    return Secret(type=kind, data={key: base64.b64encode(content).decode()})


def test_secrets_of_both_types_give_credentials() -> None:
    entry = b'{"registry.example": {"username": "%s", "password": "p"}}'
    secrets = {
        "new": secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", b'{"auths": %s}' % (entry % b"new")),
        "old": secret("kubernetes.io/dockercfg", ".dockercfg", entry % b"old"),
        "broken": secret("kubernetes.io/dockercfg", ".dockercfg", b"no JSON"),
        "other": secret("Opaque", ".dockercfg", entry % b"other"),
    }
    names = ("new", "gone", "old", "broken", "other", "new", "")
    pod = Pod(spec=PodSpec(image_pull_secrets=tuple(LocalObjectReference(name=name) for name in names)))
    credentials, unusable = image_policy.pull_credentials(pod, image(), secrets.get)
    assert credentials == [Credential(username="new", password="p"), Credential(username="old", password="p")]
    assert unusable == ["gone", "broken"]
    assert "(broken, gone)" in image_policy.describe_unusable(unusable)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2159, "215ms"), (1.2, "1.2s"), (1.2049, "1.204s"), (60.0, "1m0s"), (123.5, "2m3.5s")]
)
def test_durations_are_formatted_as_in_go(seconds: float, text: str) -> None:
    assert image_policy.describe_pull("app:1", seconds, seconds, 7) == (
        f'Successfully pulled image "app:1" in {text} ({text} including waiting). Image size: 7 bytes.'
    )


def test_failures_have_the_code_of_containerds_answer() -> None:
    assert image_policy.describe_failure(NotFound("x: not found")) == "rpc error: code = NotFound desc = x: not found"
    assert image_policy.describe_failure(Denied("no")) == "rpc error: code = Unknown desc = no"


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (None, "load it with `bridgehead image load FILE`, or use an image that has a stand-in"),
        (Unreachable("dial tcp"), "load it with `bridgehead image load FILE`, or use an image that has a stand-in"),
        (NotFound("x: not found"), "correct the name or the tag"),
        (Denied("no"), "imagePullSecrets"),
        (BadImage("digest"), "try another tag"),
    ],
)
def test_a_failed_pull_names_what_to_do_first_and_briefly(error, advice):
    assert advice in image_policy.advise(error)
    assert len(image_policy.advise(error)) <= 200
