"""The kubelet's work for a pod, seen with kubectl."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from .conftest import EXAMPLES, PATIENCE, Lab, Namespace, curl, eventually


def pod(name: str, *command: str, image: str = "busybox", **spec: Any) -> str:
    container = {"name": "main", "image": image, "command": list(command), **spec.pop("container", {})}
    return json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 2, **spec},
    })  # fmt: skip


def phase(ns: Namespace, name: str) -> str:
    return ns.get("pods", name)["status"]["phase"]


def events(ns: Namespace, name: str) -> str:
    """Reasons and messages of the pod's Events, one line each."""
    found = (event for event in ns.list_all("events") if event["involvedObject"]["name"] == name)
    return "\n".join(f"{event['reason']} {event['message']}" for event in found)


def test_a_pod_with_volumes_probes_environment_and_init_containers_runs(lab: Lab, ns: Namespace) -> None:
    ns.kubectl("apply", "-f", EXAMPLES / "pod-with-everything.yaml")
    ns.ready("everything")
    status = ns.get("pods", "everything")["status"]
    node = ns.get("pods", "everything")["spec"]["nodeName"]

    def inside(*argv: str) -> str:
        return ns.kubectl("exec", "everything", "-c", "main", "--", *argv)

    env = dict(line.split("=", 1) for line in inside("env").splitlines() if "=" in line)
    expected = {
        "PLAIN": "node $(NODE)",  # NODE comes later, so it is not expanded
        "EXPANDED": f"on {node}",
        "COLOUR": "blue",
        "TOKEN": "s3cret",
        "POD_IP": status["podIP"],
        "CPU": "2",
        "S_colour": "blue",
        "HOSTNAME": "everything",
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    }
    assert {name: env.get(name) for name in expected} == expected
    assert "MISSING" not in env
    assert inside("cat", "/work/ready") == "prepared by everything\n"
    assert inside("cat", "/etc/settings/app.conf", "/etc/one.conf") == "listen 8080\n" * 2
    assert inside("cat", "/etc/password/token") == "s3cret"
    assert inside("cat", "/etc/about/labels") == 'app="everything"'
    assert inside("hostname") == "everything\n"
    refused = ns.try_kubectl("exec", "everything", "-c", "main", "--", "touch", "/work/x")
    assert "Read-only file system" in refused.stderr

    # A process of the container is alone in its PID namespace and sees one network interface beside lo.
    assert inside("cat", "/proc/1/cmdline").startswith("sh\0-c\0trap")
    assert set(inside("ls", "/sys/class/net").split()) == {"eth0", "lo"}

    # A changed ConfigMap reaches the volume, but not the environment and not a subPath.
    ns.kubectl("patch", "configmap", "settings", "-p", '{"data":{"colour":"green","app.conf":"listen 9090"}}')
    eventually(lambda: inside("cat", "/etc/settings/colour") == "green")
    assert inside("cat", "/etc/one.conf") == "listen 8080\n"

    described = ns.kubectl("describe", "pod", "everything")
    assert re.search(r"Init Containers:\s+prepare:(.|\n)+Reason: +Completed", described)
    for line in (rf"Normal +{reason} " for reason in ("Scheduled", "Pulled", "Created", "Started")):
        eventually(lambda line=line: re.search(line, ns.kubectl("describe", "pod", "everything")), message=line)
    ns.kubectl("delete", "pod", "everything")
    # A hostPath is one of the node's: there for the next pod on it, and nowhere on the machine.
    ns.apply(
        pod(
            "reader", "cat", "/everything/stopping", "/everything/ended",
            nodeName=node, restartPolicy="Never",
            volumes=[{"name": "node", "hostPath": {"path": "/run/everything"}}],
            container={"volumeMounts": [{"name": "node", "mountPath": "/everything"}]},
        )
    )  # fmt: skip
    ns.succeeded("reader")
    assert ns.kubectl("logs", "reader") == "stopping\nended\n"
    assert not os.path.exists("/run/everything")


def test_a_pod_has_users_of_its_own(ns: Namespace) -> None:
    ns.kubectl("create", "configmap", "settings", "--from-literal=key=value")
    script = (
        "cat /proc/self/uid_map; id -G; stat -c '%u %g' /empty /config /config/..data/key /token/..data/token;"
        " touch /empty/f && stat -c '%u %g' /empty/f; cat /config/key; ping -c 1 127.0.0.1 >/dev/null && echo pings"
    )
    projection = {"serviceAccountToken": {"path": "token"}}
    ns.apply(
        pod(
            "users", "sh", "-c", script, image="busybox", hostUsers=False, restartPolicy="Never",
            securityContext={"fsGroup": 2000},
            volumes=[
                {"name": "empty", "emptyDir": {}},
                {"name": "config", "configMap": {"name": "settings"}},
                {"name": "token", "projected": {"sources": [projection]}},
            ],
            container={
                "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("empty", "config", "token")]
            },
        )
    )  # fmt: skip
    eventually(lambda: phase(ns, "users") in ("Succeeded", "Failed"))
    status = ns.get("pods", "users")["status"]
    if status["phase"] == "Failed":  # of a lab of an ordinary user with few ids
        assert status["reason"] == "UserNamespacesNotSupported"
        return
    users, *rest = ns.kubectl("logs", "users").splitlines()
    assert users.split()[0] == "0"
    assert int(users.split()[1]) >= 65536  # others than those of the lab
    assert rest == ["0 2000", *["0 2000"] * 4, "0 2000", "valuepings"]


def test_a_failing_container_is_restarted_with_back_off(ns: Namespace) -> None:
    ns.apply(pod("failing", "sh", "-c", "echo trying; exit 3"))
    eventually(lambda: "CrashLoopBackOff" in ns.kubectl("get", "pod", "failing"))
    status = ns.get("pods", "failing")["status"]["containerStatuses"][0]
    assert status["lastState"]["terminated"]["exitCode"] == 3
    eventually(lambda: "Back-off restarting failed container main in pod failing" in events(ns, "failing"))
    assert ns.kubectl("logs", "failing", "--previous") == "trying\n"


@pytest.mark.parametrize(("policy", "code", "ends"), [("Never", 0, "Succeeded"), ("Never", 1, "Failed")])
def test_the_phase_of_a_completed_pod_follows_its_exit_code(ns: Namespace, policy: str, code: int, ends: str) -> None:
    ns.apply(pod("once", "sh", "-c", f"echo done; exit {code}", restartPolicy=policy))
    eventually(lambda: phase(ns, "once") == ends)
    assert ns.kubectl("logs", "once") == "done\n"
    word = "Completed" if code == 0 else "Error"
    assert re.search(rf"once +0/1 +{word} +0 ", ns.kubectl("get", "pod", "once"))


def test_an_unknown_image_leaves_the_pod_in_err_image_pull(ns: Namespace) -> None:
    ns.apply(pod("lost", "true", image="example.org/no/such:1.0"))
    eventually(lambda: re.search(r"ErrImagePull|ImagePullBackOff", ns.kubectl("get", "pod", "lost")))
    eventually(lambda: 'Failed to pull image "example.org/no/such:1.0"' in events(ns, "lost"))


def test_a_stand_in_is_named_in_events_and_image_id(ns: Namespace) -> None:
    ns.kubectl("run", "web", "--image=nginx")
    ns.ready("web")
    assert "stand-in" in ns.get("pods", "web")["status"]["containerStatuses"][0]["imageID"]
    eventually(lambda: "stand-in" in events(ns, "web"))


def test_probes_decide_about_readiness_and_restarts(lab: Lab, ns: Namespace) -> None:
    ns.apply(
        pod(
            "probed", image="nginx",
            container={
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
                "startupProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1, "failureThreshold": 60},
                "livenessProbe": {"exec": {"command": ["test", "!", "-e", "/tmp/dead"]}, "periodSeconds": 1,
                                  "failureThreshold": 1, "timeoutSeconds": 60},
            },
        )
    )  # fmt: skip
    ns.ready("probed")
    ns.kubectl("exec", "probed", "--", "touch", "/tmp/dead")
    eventually(lambda: ns.get("pods", "probed")["status"]["containerStatuses"][0]["restartCount"] == 1)
    eventually(lambda: "Container main failed liveness probe, will be restarted" in events(ns, "probed"))

    ns.apply(
        pod(
            "unready", "sleep", "1000",
            container={"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}},
        )
    )  # fmt: skip
    ns.kubectl("expose", "pod", "unready", "--port=80")
    eventually(lambda: "Readiness probe failed" in events(ns, "unready"))
    assert re.search(r"unready +0/1 +Running ", ns.kubectl("get", "pod", "unready"))
    ns.wait_endpoints("unready", 0)


def test_a_host_network_pod_uses_the_nodes_address(lab: Lab, ns: Namespace) -> None:
    ns.apply(pod("hosted", image="gcr.io/google-samples/node-hello:1.0", hostNetwork=True))
    ns.ready("hosted")
    address = ns.get("pods", "hosted")["status"]["podIP"]
    assert address.startswith("10.0.0.20")
    eventually(lambda: "Hello" in curl(lab, f"http://{address}:8080/").stdout)


def test_a_container_is_killed_after_the_grace_period(ns: Namespace) -> None:
    ns.apply(pod("stubborn", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"))
    ns.ready("stubborn")
    ns.kubectl("delete", "pod", "stubborn", f"--timeout={PATIENCE}s")


def test_exec_and_logs_reach_a_container(ns: Namespace) -> None:
    ns.apply(pod("shell", "sh", "-c", "for i in 1 2 3; do echo line $i; done; sleep 1000"))
    ns.ready("shell")
    eventually(lambda: ns.kubectl("logs", "shell", "--tail=2") == "line 2\nline 3\n")
    assert re.fullmatch(r"\d{4}-\S+Z line 3\n", ns.kubectl("logs", "shell", "--tail=1", "--timestamps"))
    echoed = ns.kubectl("exec", "-i", "shell", "--", "cat", stdin="through and back\n")
    assert echoed == "through and back\n"
    failed = ns.try_kubectl("exec", "shell", "--", "sh", "-c", "echo out; echo err >&2; exit 5")
    assert (failed.returncode, failed.stdout) == (5, "out\n")
    assert failed.stderr.startswith("err\n")
    missing = ns.try_kubectl("exec", "shell", "--", "no-such-program")
    assert missing.returncode != 0
    assert "executable file not found in $PATH" in missing.stderr


def test_containers_survive_a_restart_of_the_kubelet(lab: Lab, ns: Namespace) -> None:
    ns.apply(pod("steady", "sleep", "1000", nodeSelector={"kubernetes.io/hostname": "node2"}))
    ns.ready("steady")
    before = ns.get("pods", "steady")["status"]["containerStatuses"][0]
    status = lab.command("status").stdout
    [pid] = re.findall(r"kubelet-node2 +(\d+)", status)
    assert lab.inside("kill", "-9", pid).returncode == 0
    eventually(lambda: re.search(r"kubelet-node2 +(\d+) +[1-9]", lab.command("status").stdout))
    ns.apply(pod("after", "sleep", "1000", nodeSelector={"kubernetes.io/hostname": "node2"}))
    ns.ready("after")
    after = ns.get("pods", "steady")["status"]["containerStatuses"][0]
    assert after["containerID"] == before["containerID"]
    assert after["restartCount"] == 0
