"""A lab under disturbances: parts killed and stopped, rules flushed, much made and deleted."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles
from tests.forks import fork

from .conftest import PATIENCE, Lab, Namespace, curl, eventually, no_request_lost, running
from .test_bad_input import config_maps, named
from .test_lab import init_of


def pid_of(lab: Lab, part: str) -> int:
    return next(p.pid for p in state_directories.read_parts(LabFiles(lab.state_dir)) if p.name == part)


def deployed(ns: Namespace, replicas: int) -> str:
    """The address of a Service with so many pods."""
    ns.kubectl("create", "deployment", "web", "--image=nginx", f"--replicas={replicas}")
    ns.kubectl("expose", "deployment", "web", "--port=80")
    ns.rolled_out("deployment/web")
    ns.wait_endpoints("web", replicas)
    return f"http://{ns.cluster_ip('web')}/"


def test_services_answer_while_parts_are_killed(lab: Lab, ns: Namespace) -> None:
    """Requests need only the kernel's rules: no API server, no controllers and no kubelet."""
    url = deployed(ns, 3)
    parts = ("apiserver", "controllers", "kubelet-node1")
    pids = {part: pid_of(lab, part) for part in parts}
    assert lab.inside("kill", "-9", *pids.values()).returncode == 0
    script = f"for i in $(seq 100); do curl -sS --max-time 20 -o /dev/null {url} || exit 1; done"
    answers = lab.inside("sh", "-c", script, node="node1")
    assert answers.returncode == 0, answers.stderr
    eventually(lambda: all(pid_of(lab, part) not in (0, pid) for part, pid in pids.items()))
    eventually(lambda: ns.try_kubectl("scale", "deployment/web", "--replicas=4").returncode == 0)
    ns.wait_endpoints("web", 4)
    pods = ns.pods("app=web")
    assert sum(s["restartCount"] for pod in pods for s in pod["status"]["containerStatuses"]) == 0
    # The history of changes died with the API server: clients that ask for it must list again.
    code, event = lab.api.call("GET", f"{config_maps(ns)}?watch=1&resourceVersion=1")
    assert (code, event["type"], event["object"]["reason"]) == (200, "ERROR", "Expired")


def test_flushed_rules_are_restored(lab: Lab, ns: Namespace) -> None:
    url = deployed(ns, 1)
    assert lab.inside("nft", "flush", "ruleset", node="node2").returncode == 0
    eventually(lambda: curl(lab, url, node="node2").returncode == 0)


def test_a_killed_container_is_restarted(lab: Lab, ns: Namespace) -> None:
    deployed(ns, 1)
    ns.try_kubectl("exec", "deployment/web", "--", "sh", "-c", "kill -9 -1; kill 1")

    def restarted() -> bool:
        (status,) = ns.pods("app=web")[0]["status"]["containerStatuses"]
        return status["restartCount"] >= 1 and status["ready"]

    eventually(restarted)
    ns.wait_endpoints("web", 1)


def test_deleted_pods_leave_nothing_on_their_nodes(lab: Lab, ns: Namespace) -> None:
    """Interfaces, processes and directories are removed with a pod; all objects are removed with a namespace."""
    ns.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=12")
    ns.rolled_out("deployment/web")
    uids = [pod["metadata"]["uid"] for pod in ns.pods("app=web")]
    assert len(uids) == 12
    ns.lab.kubectl("delete", "namespace", ns.name, "--wait=true", f"--timeout={PATIENCE}s")
    assert ns.lab.kubectl("get", "namespace", ns.name).returncode == 1
    root = lab.state_dir / "nodes"
    eventually(lambda: not [path for uid in uids for path in root.glob(f"*/*/*{uid}*")], message="files are left")


def test_a_deleted_node_registers_again_with_its_pods(lab: Lab, ns: Namespace) -> None:
    url = deployed(ns, 3)

    def pods_of_node() -> dict[str, str]:
        pods = json.loads(lab.kubectl("get", "pods", "-A", "-o", "json").stdout)["items"]
        return {
            pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["containerID"]
            for pod in pods
            if pod["spec"].get("nodeName") == "node2" and pod["metadata"]["namespace"] in (ns.name, "kube-system")
        }

    def node_uid() -> str:
        """Return the uid of the node when it is ready, else ""."""
        result = lab.kubectl("get", "node", "node2", "-o", "json")
        node = json.loads(result.stdout) if result.returncode == 0 else {}
        conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions", [])}
        return node["metadata"]["uid"] if conditions.get("Ready") == "True" else ""

    before, uid = pods_of_node(), node_uid()
    assert len(before) >= 2, "one of ours and the proxy"
    with no_request_lost(lab, url, at_least=100):
        assert lab.kubectl("delete", "node", "node2").returncode == 0
        eventually(lambda: node_uid() not in ("", uid))
        ns.wait_endpoints("web", 3)
    assert pods_of_node() == before


def descriptors(lab: Lab) -> dict[str, int]:
    """The number of open descriptors of each process of the lab, by its pid and name."""
    script = 'for p in /proc/[0-9]*; do echo "$p $(ls $p/fd 2>/dev/null | wc -l) $(cat $p/comm 2>/dev/null)"; done'
    lines = [line.split(maxsplit=2) for line in lab.inside("sh", "-c", script).stdout.splitlines()]
    return {f"{line[0].removeprefix('/proc/')} {line[-1]}": int(line[1]) for line in lines if len(line) == 3}


def use_and_delete_pods(ns: Namespace) -> None:
    """Each way there is to use a pod, whoever ends it: the server, a client that leaves, one that is killed."""
    ns.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    ns.kubectl("expose", "deployment", "web", "--port=80")
    ns.rolled_out("deployment/web")
    for pod in [pod["metadata"]["name"] for pod in ns.pods("app=web")]:
        ns.kubectl("exec", pod, "--", "true")
        ns.kubectl("logs", pod)
        base = ("kubectl", f"--kubeconfig={ns.lab.state_dir / 'kubeconfig'}", "-n", ns.name)
        forward = running(*base, "port-forward", pod, ":80", stdout=subprocess.PIPE)
        with (
            running(*base, "logs", "-f", pod, stdout=subprocess.DEVNULL),
            running(*base, "exec", pod, "--", "sh", "-c", "echo begun; sleep 100", stdout=subprocess.PIPE) as command,
            forward as forwarding,
        ):
            assert command.stdout is not None
            assert forwarding.stdout is not None
            assert command.stdout.readline() == "begun\n"
            port = forwarding.stdout.readline().rpartition("->")[0].rpartition(":")[2].strip()
            with contextlib.closing(HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)) as connection:
                connection.request("GET", "/")
                assert connection.getresponse().status == 200
    ns.kubectl("delete", "service/web", "deployment/web")
    eventually(lambda: not ns.pods("app=web"))


def test_deleted_pods_and_their_clients_leave_no_file_descriptors(lab: Lab, ns: Namespace) -> None:
    use_and_delete_pods(ns)  # what is opened once stays open
    before = descriptors(lab)
    use_and_delete_pods(ns)

    def more() -> dict[str, tuple[int, int]]:
        """Return the numbers of descriptors, before and after, of processes that have more: one for each of three pods
        would show."""
        after = descriptors(lab)
        return {who: (count, after[who]) for who, count in before.items() if after.get(who, 0) > count + 2}

    eventually(lambda: not more(), message=f"descriptors before and after: {more()}")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab("robust", tmp_path / "state")
    yield lab
    lab.stop("--delete")


def test_acknowledged_writes_survive_a_kill(other: Lab) -> None:
    """The lab's first process is killed during writes; the lab starts again with fewer nodes."""
    other.start("--nodes=2", "--no-balancer")
    ns = Namespace(other, "default")
    acknowledged = set()
    init = init_of(other)
    with contextlib.closing(other.api.connect()) as connection:
        for number in itertools.count():  # until the kernel has ended them all; the test has a deadline
            body = named(metadata={"name": f"c{number}"})
            try:
                connection.request("POST", config_maps(ns), body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException):  # an answer may end in its midst
                break
            assert answer.status == 201
            acknowledged.add(f"c{number}")
            if number == 150:
                os.kill(init, signal.SIGKILL)
    assert len(acknowledged) > 150

    eventually(lambda: other.command("up", "--detach", "--nodes=1").returncode == 0)
    stored = json.loads(ns.kubectl("get", "configmaps", "-o", "json"))["items"]
    assert acknowledged <= {item["metadata"]["name"] for item in stored}
    assert ns.kubectl("get", "nodes", "-o", "name").split() == ["node/node1"]


def test_parts_that_hang_are_restarted_and_catch_up(other: Lab) -> None:
    argv = [str(word) for word in other.argv("up", "--detach", "--nodes=1", "--no-balancer")[1:]]
    with open(os.devnull, "r+b") as nothing:
        streams = (nothing.fileno(), nothing.fileno(), 2)
        modules = ("bridgehead.cli.up", "tests.lab_modules")
        assert fork("tests.e2e.quick_watch:up", argv, streams=streams, modules=modules).wait(PATIENCE) == 0
    ns = Namespace(other, "default")
    parts = ("apiserver", "controllers", "runtime-node1", "kubelet-node1")
    pids = {part: pid_of(other, part) for part in parts}
    assert other.inside("kill", "-STOP", *pids.values()).returncode == 0
    eventually(lambda: all(pid_of(other, part) not in (0, pid) for part, pid in pids.items()))
    reasons = {p.name: p.last_exit for p in state_directories.read_parts(LabFiles(other.state_dir))}
    assert all(reasons[part].endswith("it is stopped") for part in parts), reasons
    eventually(lambda: ns.try_kubectl("create", "deployment", "web", "--image=nginx").returncode == 0)
    ns.rolled_out("deployment/web")
