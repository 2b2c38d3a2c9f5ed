"""A UDP client that keeps its socket is served by new backends, or gets ECONNREFUSED when there is none."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from .conftest import Lab, Namespace, eventually, running
from .test_publishing import NODES

# Asks for the server's name again and again from one socket. For a line on standard input it prints its answers: [pod,
# "refused" or "nothing", how often in a row], ... An answer that comes after it has stopped waiting was late, on a busy
# machine, and is none that was lost: its "nothing" is taken back.
CLIENT = """
import json, select, socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((sys.argv[1], int(sys.argv[2])))
answers = []

def note(answer, count=1):
    if answers and answers[-1][0] == answer:
        answers[-1][1] += count
    else:
        answers.append([answer, count])

def take_back_a_nothing():
    for at in reversed(range(len(answers))):
        if answers[at][0] == "nothing":
            runs = answers[:at] + [["nothing", answers[at][1] - 1]] + answers[at + 1 :]
            answers.clear()
            for answer, count in runs:
                if count:
                    note(answer, count)
            return

while True:
    try:
        sock.settimeout(0)
        while True:
            sock.recv(200)
            take_back_a_nothing()
    except BlockingIOError:
        pass
    except OSError:
        note("refused")
    try:
        sock.settimeout(2)
        sock.send(b"hostname")
        note(sock.recv(200).decode())
    except TimeoutError:
        note("nothing")
    except OSError:
        note("refused")
    if select.select([sys.stdin], [], [], 0.005)[0]:
        if not sys.stdin.readline():
            break
        print(json.dumps(answers), flush=True)
"""

SERVER = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: names}
spec:
  selector: {matchLabels: {app: names}}
  template:
    metadata: {labels: {app: names}}
    spec:
      containers:
      - {name: server, image: registry.k8s.io/e2e-test-images/agnhost:2.47, args: [netexec]}
---
apiVersion: v1
kind: Service
metadata: {name: names}
spec:
  type: NodePort
  selector: {app: names}
  ports: [{port: 81, targetPort: 8081, protocol: UDP}]
"""


@dataclass
class Client:
    process: subprocess.Popen[str]

    def answers(self) -> list[tuple[str, int]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [tuple(run) for run in json.loads(self.process.stdout.readline())]

    def is_answered_by(self, who: str) -> bool:
        """Now, and for some time."""
        last, count = self.answers()[-1]
        return last == who and count >= 20

    def times(self, who: str) -> int:
        return sum(count for answer, count in self.answers() if answer == who)


@contextlib.contextmanager
def client(lab: Lab, address: str, port: int, node: str | None = None) -> Iterator[Client]:
    argv = lab.argv_inside(sys.executable, "-c", CLIENT, address, port, node=node)
    with running(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Client(process)


def name_of_the_pod(ns: Namespace) -> str:
    (pod,) = ns.pods("app=names")
    return pod["metadata"]["name"]


def test_udp_clients_follow_their_service(lab: Lab, ns: Namespace) -> None:
    ns.apply(SERVER)
    ns.rolled_out("deployment/names")
    ns.wait_endpoints("names", 1)
    node_port = ns.get("services", "names")["spec"]["ports"][0]["nodePort"]
    first = name_of_the_pod(ns)
    with (
        client(lab, ns.cluster_ip("names"), 81, node="node1") as inside,
        client(lab, ns.cluster_ip("names"), 81) as routed,
        client(lab, NODES["node3"], node_port) as outside,
    ):
        clients = (inside, routed, outside)
        eventually(lambda: all(c.is_answered_by(first) for c in clients))

        ns.kubectl("rollout", "restart", "deployment/names")
        ns.rolled_out("deployment/names")
        eventually(lambda: len(ns.pods("app=names")) == 1)
        second = name_of_the_pod(ns)
        eventually(lambda: all(c.is_answered_by(second) for c in clients))
        for c in clients:
            answers = c.answers()
            served = [who for who, _ in answers]
            change = served[served.index(first) + 1 : served.index(second)]
            assert served[served.index(second) :] == [second], f"lost once the new pod had answered: {answers}"
            assert set(change) <= {"nothing", "refused"}, f"not between the two, when the first had ended: {answers}"

        ns.kubectl("scale", "deployment/names", "--replicas=0")
        eventually(lambda: not ns.pods("app=names"))
        before = [c.times("refused") for c in clients]
        # The kernel refuses once a second; what it does not refuse then is still not sent to where nobody is.
        eventually(lambda: all(c.times("refused") > count for c, count in zip(clients, before, strict=True)))

        ns.kubectl("scale", "deployment/names", "--replicas=1")
        ns.rolled_out("deployment/names")
        third = name_of_the_pod(ns)
        eventually(lambda: all(c.is_answered_by(third) for c in clients))


# Servers of UDP that want to be left in time (CoreDNS calls it lameduck) still answer when they are not ready any more.
# A server is ready when it has the socket of its port: before, it would refuse what it is sent.
GOES_SLOWLY = """
terminationGracePeriodSeconds: 600
volumes: [{name: state, emptyDir: {}}]
containers:
- name: server
  image: registry.k8s.io/e2e-test-images/agnhost:2.47
  args: [netexec]
  volumeMounts: [{name: state, mountPath: /state}]
  readinessProbe:
    exec: {command: [sh, -c, "! test -e /state/ending && cat /proc/net/udp /proc/net/udp6 | grep -q :1F91"]}
    periodSeconds: 1
    timeoutSeconds: 60
  lifecycle: {preStop: {exec: {command: [sh, -c, "touch /state/ending; sleep 500"]}}}
"""


def with_pods(spec: str) -> str:
    deployment, service = yaml.safe_load_all(SERVER)
    deployment["spec"]["template"]["spec"] = yaml.safe_load(spec)
    return yaml.safe_dump_all([deployment, service])


def is_ending(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def test_udp_clients_leave_a_terminating_server_that_is_not_ready(lab: Lab, ns: Namespace) -> None:
    ns.apply(with_pods(GOES_SLOWLY))
    ns.rolled_out("deployment/names")
    ns.wait_endpoints("names", 1)
    first = name_of_the_pod(ns)
    with (
        client(lab, ns.cluster_ip("names"), 81, node="node1") as inside,
        client(lab, ns.cluster_ip("names"), 81) as routed,
    ):
        eventually(lambda: all(c.is_answered_by(first) for c in (inside, routed)))

        ns.kubectl("rollout", "restart", "deployment/names")
        ns.rolled_out("deployment/names")
        (second,) = (pod["metadata"]["name"] for pod in ns.pods("app=names") if not is_ending(pod))
        eventually(lambda: all(c.is_answered_by(second) for c in (inside, routed)))

        (old,) = (pod for pod in ns.pods("app=names") if pod["metadata"]["name"] == first)
        assert is_ending(old)
        assert old["status"]["phase"] == "Running"
        for c in (inside, routed):
            assert c.times("refused") == 0, "nobody was asked who had ended"
            assert c.times("nothing") <= 1, "an answer may have been on its way when its flow was removed"
        ns.kubectl("delete", "pod", first, "--grace-period=0", "--force")
