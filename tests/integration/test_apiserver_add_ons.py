"""`kubectl apply -f` of manifests in the shape of well-known add-ons: no error, and no change the second time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .apiserver_process import ServerProcess

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

_MANIFESTS = Path(__file__).with_name("add_ons")


def kubectl(server: ServerProcess, *arguments: object) -> list[str]:
    """Return the lines of the output; there are no warnings and no errors."""
    result = server.kubectl(*map(str, arguments))
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout.splitlines()


def outcomes(lines: list[str]) -> set[str]:
    return {line.split(maxsplit=1)[1] for line in lines}


def stored(server: ServerProcess, manifest: Path) -> list[Any]:
    """Return the manifest's objects without what the API server's own controllers write."""
    objects = json.loads("".join(kubectl(server, "get", "-o", "json", "-f", manifest)))["items"]
    for obj in objects:
        obj.pop("status", None)
        del obj["metadata"]["resourceVersion"]
    return objects


@pytest.mark.parametrize("name", ["certificates", "ingress", "balancer", "metrics"])
def test_an_add_on_is_applied_twice_and_deleted(server: ServerProcess, name: str) -> None:
    manifest = _MANIFESTS / f"{name}.yaml"
    created = kubectl(server, "apply", "-f", manifest)
    assert outcomes(created) == {"created"}
    if definitions := [line.split()[0] for line in created if line.startswith("customresourcedefinition")]:
        established = kubectl(server, "wait", "--for=condition=Established", "--timeout=60s", *definitions)
        assert outcomes(established) == {"condition met"}
    before = stored(server, manifest)
    # kubectl prints "configured" when it sends a patch, as for a list with default values, if nothing changes, too.
    assert outcomes(kubectl(server, "apply", "-f", manifest)) <= {"unchanged", "configured"}
    assert stored(server, manifest) == before
    assert outcomes(kubectl(server, "apply", "--server-side", "--force-conflicts", "-f", manifest)) == {
        "serverside-applied"
    }
    if name == "balancer":
        check_balancer_objects(server)
    if name == "certificates":
        check_aggregated_rights(server)
    assert len(kubectl(server, "delete", "--wait=false", "-f", manifest)) == len(created)


def check_balancer_objects(server: ServerProcess) -> None:
    """The add-on's own objects: its webhook does not answer, and its policy is to ignore that."""
    objects = _MANIFESTS / "balancer_objects.yaml"
    assert outcomes(kubectl(server, "apply", "-f", objects)) == {"created"}
    assert outcomes(kubectl(server, "apply", "-f", objects)) == {"unchanged"}
    header, pool = kubectl(server, "-n", "balancer", "get", "pools")
    assert header.split() == ["NAME", "AUTO", "ASSIGN", "ADDRESSES"]
    assert pool.split() == ["first", "true", '["192.0.2.0/28","198.51.100.1-198.51.100.9"]']
    (peer,) = kubectl(server, "-n", "balancer", "get", "peer", "router", "-o", "jsonpath={.spec}")
    assert json.loads(peer)["peerPort"] == 179
    assert "    peerPort\t<integer>" in kubectl(server, "explain", "peers", "--recursive")
    refused = server.kubectl(
        "-n", "balancer", "patch", "peer", "router", "--type=merge", "-p", '{"spec":{"peerASN":null}}'
    )
    assert "either peerASN or dynamicASN is needed" in refused.stderr


def check_aggregated_rights(server: ServerProcess) -> None:
    """Users who may view a namespace may view the add-on's objects in it."""
    kubectl(server, "create", "rolebinding", "viewer", "--clusterrole=view", "--user=ann")
    assert kubectl(server, "auth", "can-i", "list", "certificates.certs.example.com", "--as=ann") == ["yes"]
    refused = server.kubectl("auth", "can-i", "create", "certificates.certs.example.com", "--as=ann")
    assert (refused.returncode, refused.stdout) == (1, "no\n")
