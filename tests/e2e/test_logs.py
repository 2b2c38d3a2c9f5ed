"""kubectl logs of one container and of many."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from .conftest import PATIENCE, Lab, Namespace, running

# Two containers that print three lines and go on, after an init container that prints one.
TALKERS: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "talkers"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "talkers"}},
        "template": {
            "metadata": {"labels": {"app": "talkers"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "initContainers": [{"name": "first", "image": "busybox", "command": ["echo", "prepared"]}],
                "containers": [
                    {
                        "name": name,
                        "image": "busybox",
                        "command": ["sh", "-c", f"for i in 1 2 3; do echo {name} $i; done; exec sleep 1000"],
                        # Ready: all lines are printed.
                        "readinessProbe": {"exec": {"command": ["pidof", "sleep"]}, "periodSeconds": 1},
                    }
                    for name in ("one", "two")
                ],
            },
        },
    },
}


def test_logs_are_read_from_several_pods_by_label(lab: Lab, ns: Namespace) -> None:
    ns.apply(json.dumps(TALKERS))
    ns.rolled_out("deployment/talkers")
    pods = sorted(pod["metadata"]["name"] for pod in ns.pods("app=talkers"))
    printed = (("first", "prepared"), ("one", "one 2"), ("one", "one 3"), ("two", "two 2"), ("two", "two 3"))
    wanted = {f"[pod/{pod}/{container}] {line}" for pod in pods for container, line in printed}
    shown = ns.kubectl("logs", "-l", "app=talkers", "--all-containers", "--prefix", "--tail=2")
    assert sorted(shown.splitlines()) == sorted(wanted)

    # `kubectl logs -f` ends when the containers end.
    command = ("kubectl", "-n", ns.name, "logs", "-f", "-l", "app=talkers", "-c", "one", "--prefix", "--tail=1")
    with running(*command, env=lab.env, stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        followed = {following.stdout.readline() for _ in pods}
        assert followed == {f"[pod/{pod}/one] one 3\n" for pod in pods}
        ns.kubectl("delete", "deployment", "talkers", "--wait=false")
        assert following.stdout.read() == ""
        assert following.wait(PATIENCE) == 0


def test_options_select_a_part_of_a_log(lab: Lab, ns: Namespace) -> None:
    ns.apply(json.dumps(TALKERS | {"spec": TALKERS["spec"] | {"replicas": 1}}))
    ns.rolled_out("deployment/talkers")
    logs = ("logs", "deployment/talkers", "-c", "one")
    assert ns.kubectl(*logs) == "one 1\none 2\none 3\n"
    assert ns.kubectl(*logs, "--limit-bytes=8") == "one 1\non"
    assert ns.kubectl(*logs, "--since=1h") == "one 1\none 2\none 3\n"
    assert ns.kubectl(*logs, "--since-time=2100-01-01T00:00:00Z") == ""
    stamped = ns.kubectl(*logs, "--timestamps", "--tail=1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z one 3\n", stamped)
    # Up to 1.20 kubectl asks which container is meant, later ones take the first.
    unnamed = ns.try_kubectl("logs", "deployment/talkers").stderr
    assert "Defaulted container" in unnamed or "a container name must be specified" in unnamed
    [pod] = ns.pods("app=talkers")
    refused = ns.try_kubectl(
        "get", "--raw", f"/api/v1/namespaces/{ns.name}/pods/{pod['metadata']['name']}/log?tailLines=-5"
    )
    assert "tailLines: Invalid value: -5: must be greater than or equal to 0" in refused.stderr
