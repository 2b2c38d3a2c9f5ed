"""Planned moves of a load-balancer address in a lab, under a client that connects all the time: lost connections.

The client is behind a router, the lab's own namespace. One node at a time has the address with layer 2 and VRRP. With
BGP the router (BIRD) spreads connections over all nodes, by addresses and ports; it may spread packets that it sends
itself otherwise.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.integration import bird_router

from .lab import BRIDGEHEAD, call
from .tables import Table

CONNECTIONS = 10_000
_LANES = 4
_CLIENT = Path(__file__).with_name("connecting_client.py")
_ROUTER_ADDRESS, _CLIENT_ADDRESS = "10.8.0.1", "10.8.0.2"
# Print the process id, wait for a line, and run a command in a network namespace that has got an interface meanwhile.
_BEHIND_ROUTER = f"""
echo $$
read -r _
ip address add {_CLIENT_ADDRESS}/24 dev eth0
ip link set eth0 up
ip route add default via {_ROUTER_ADDRESS}
exec "$@"
"""
_SETTLE_SECONDS = 2.0  # after a move, in which a connection could still be lost
_PATIENCE_SECONDS = 120.0
# Give that namespace the interface, and let the lab's own namespace route what comes from the nodes to it. The kernel
# removes the interface of a client before some time after that has ended.
_LINK_TO_CLIENT = f"""
ip link delete client 2>/dev/null || true
ip link add client type veth peer name eth0 netns "$1"
ip address add {_ROUTER_ADDRESS}/24 dev client
ip link set client up
ip rule show | grep -q "to {_CLIENT_ADDRESS}" || ip rule add pref 50 to {_CLIENT_ADDRESS} lookup main
"""


def run() -> list[Table]:
    with tempfile.TemporaryDirectory() as directory:
        lab = _Lab(Path(directory) / "lab")
        call(BRIDGEHEAD, "up", *lab.options, "--detach", "--ephemeral")
        try:
            rows = list(_measure_policies(lab, LAYER2))
            lab.kubectl("apply", "-f", "-", stdin=_VRRP_OBJECTS)
            rows += _measure_policies(lab, VRRP)
            with _router(lab, Path(directory)):
                rows += _measure_policies(lab, BGP)
        finally:
            call(BRIDGEHEAD, "down", *lab.options)
    note = (
        f"3 nodes. {_LANES} lanes connect, ask and close without pause; a move is repeated until there are"
        f" {CONNECTIONS} connections. By BGP with graceful restart."
    )
    return [
        Table("Planned moves", ("what, policy, announced by", "moves", "connections", "lost", "over 0.5 s"), rows, note)
    ]


class Protocol(NamedTuple):
    """A way to announce. `key`: its name in `bridgehead balancer status`. `annotations`: those of Services."""

    name: str
    key: str
    annotations: dict[str, str]


LAYER2 = Protocol("layer 2", "layer2", {})
VRRP = Protocol("VRRP", "vrrp", {"eip.openelb.kubesphere.io/v1alpha2": "vips"})
BGP = Protocol("BGP", "bgp", {"metallb.io/address-pool": "routed"})
_VRRP_OBJECTS = """
apiVersion: network.kubesphere.io/v1alpha2
kind: Eip
metadata: {name: vips}
spec: {address: 10.0.0.60-10.0.0.69, protocol: vip, interface: eth0}
"""
_BGP_OBJECTS = """
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: routed, namespace: metallb-system}
spec: {addresses: [10.9.0.0/24], avoidBuggyIPs: true}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: router, namespace: metallb-system}
spec: {myASN: 64512, peerASN: 64513, peerAddress: 10.0.0.1, enableGracefulRestart: true}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: routed, namespace: metallb-system}
spec: {ipAddressPools: [routed]}
"""


class _Lab:
    def __init__(self, state: Path) -> None:
        self.options = ("--name", "moves", "--state-dir", str(state))
        self._env = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}

    def kubectl(self, *args: str, stdin: str = "") -> str:
        command = ["kubectl", *args]
        return subprocess.run(
            command, input=stdin, env=self._env, text=True, capture_output=True, check=True, timeout=300
        ).stdout

    def get(self, *args: str) -> Any:
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    def announcing(self, service: str, protocol: Protocol) -> frozenset[str]:
        """Return the nodes that announce a Service; none while several do, except by BGP."""
        command = [str(BRIDGEHEAD), "balancer", "status", *self.options]
        status = subprocess.run(command, text=True, capture_output=True, check=True, timeout=300)
        rows = [line.split()[1:4] for line in status.stdout.splitlines()]
        nodes = {row[2] for row in rows if row[:2] == [f"default/{service}", protocol.key]}
        return frozenset(nodes) if protocol is BGP or len(nodes) == 1 else frozenset()

    def inside(self, *args: object) -> list[str]:
        """Return the command line that runs a command in the lab's own namespace."""
        return [str(part) for part in (BRIDGEHEAD, "exec", *self.options, "--", *args)]

    @contextlib.contextmanager
    def connecting(self, url: str) -> Iterator[Callable[[str], dict[str, Any]]]:
        """Run the client during the block. The yielded function ends a phase and returns its counts."""
        client_command = (sys.executable, _CLIENT, url, _LANES)
        command = self.inside("unshare", "--net", "sh", "-ec", _BEHIND_ROUTER, "sh", *client_command)
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as client:
            stdin, stdout = client.stdin, client.stdout
            if stdin is None or stdout is None:
                raise RuntimeError("the client has no pipes")
            link = self.inside("sh", "-ec", _LINK_TO_CLIENT, "sh", stdout.readline().strip())
            subprocess.run(link, check=True)
            print(file=stdin, flush=True)

            def end_phase(name: str) -> dict[str, Any]:
                print(name, file=stdin, flush=True)
                counts: dict[str, Any] = json.loads(stdout.readline())
                return counts

            yield end_phase
            stdin.close()


@contextlib.contextmanager
def _router(lab: _Lab, directory: Path) -> Iterator[None]:
    """Run BIRD beside the nodes during the block, as the peer of all of them."""
    configuration = directory / "bird.conf"
    sessions = "".join(bird_router.bgp(number) for number in (1, 2, 3))
    configuration.write_text(bird_router.COMMON + bird_router.KERNEL + sessions)
    subprocess.run(lab.inside("sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=1"), check=True)
    command = lab.inside("bird", "-f", "-c", configuration, "-s", directory / "bird.ctl")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as bird:
        try:
            lab.kubectl("apply", "-f", "-", stdin=_BGP_OBJECTS)
            yield
        finally:
            bird.terminate()


def _measure_policies(lab: _Lab, protocol: Protocol) -> Iterator[list[str]]:
    for policy in ("Cluster", "Local"):
        yield from _measure_policy(lab, policy, protocol)


def _measure_policy(lab: _Lab, policy: str, protocol: Protocol) -> Iterator[list[str]]:
    name = f"{policy}-{protocol.name}".lower().replace(" ", "")
    lab.kubectl("create", "deployment", name, "--image=nginx", "--replicas=6")
    ports = [{"port": 80}]
    spec = {"type": "LoadBalancer", "selector": {"app": name}, "ports": ports, "externalTrafficPolicy": policy}
    meta = {"name": name, "annotations": protocol.annotations}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(service))
    lab.kubectl("rollout", "status", f"deployment/{name}", "--timeout=120s")
    _until(lambda: lab.announcing(name, protocol))
    address = lab.get("service", name)["status"]["loadBalancer"]["ingress"][0]["ip"]
    moves: dict[str, Callable[[], None]] = {
        "cordon and uncordon": lambda: _cordon(lab, name, protocol),
        "drain and uncordon": lambda: _drain(lab, name, protocol),
        "speakers' rollout restart": lambda: _restart(lab, "daemonset/bridgehead-speaker"),
        "controller's rollout restart": lambda: _restart(lab, "deployment/bridgehead-balancer"),
    }
    if policy == "Local":
        moves["last local endpoint removed"] = lambda: _remove_local_endpoints(lab, name, protocol)
    with lab.connecting(f"http://{address}/") as end_phase:
        time.sleep(_SETTLE_SECONDS)
        end_phase("warm up")
        for what, move in moves.items():
            yield _measure(f"{what}, {policy}, {protocol.name}", move, end_phase)


def _measure(what: str, move: Callable[[], None], end_phase: Callable[[str], dict[str, Any]]) -> list[str]:
    """Repeat a move until there were enough connections. Return the row of the table."""
    connections = slow = moves = 0
    lost: dict[str, int] = {}
    while connections < CONNECTIONS:
        move()
        time.sleep(_SETTLE_SECONDS)
        counts = end_phase(what)
        moves += 1
        connections += counts["connections"]
        slow += counts["slow"]
        for problem, number in counts["lost"].items():
            lost[problem] = lost.get(problem, 0) + number
    reasons = ", ".join(f"{number} {problem}" for problem, number in lost.items())
    row = [what, str(moves), str(connections), f"{sum(lost.values())} {reasons}".strip(), str(slow)]
    print(*row, file=sys.stderr)
    return row


def _cordon(lab: _Lab, service: str, protocol: Protocol) -> None:
    node = min(_until(lambda: lab.announcing(service, protocol)))
    lab.kubectl("cordon", node)
    _until_moved(lab, service, protocol, node)
    time.sleep(_SETTLE_SECONDS)
    lab.kubectl("uncordon", node)
    _until(lambda: lab.announcing(service, protocol))


def _drain(lab: _Lab, service: str, protocol: Protocol) -> None:
    node = min(_until(lambda: lab.announcing(service, protocol)))
    lab.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
    _until_moved(lab, service, protocol, node)
    time.sleep(_SETTLE_SECONDS)
    lab.kubectl("uncordon", node)
    lab.kubectl("rollout", "restart", f"deployment/{service}")  # pods on all nodes again
    lab.kubectl("rollout", "status", f"deployment/{service}", "--timeout=120s")


def _restart(lab: _Lab, workload: str) -> None:
    lab.kubectl("-n", "kube-system", "rollout", "restart", workload)
    lab.kubectl("-n", "kube-system", "rollout", "status", workload, "--timeout=120s")


def _remove_local_endpoints(lab: _Lab, service: str, protocol: Protocol) -> None:
    """Delete the holder's pods, which are replaced on the other nodes, as it is cordoned after it has lost them."""
    node = min(_until(lambda: lab.announcing(service, protocol)))
    pods = lab.get("pods", "-l", f"app={service}")["items"]
    local = [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node]
    taint = "moves=now:NoSchedule"
    lab.kubectl("taint", "node", node, taint)
    lab.kubectl("delete", "pod", *local)
    _until_moved(lab, service, protocol, node)
    lab.kubectl("taint", "node", node, f"{taint}-")
    lab.kubectl("rollout", "restart", f"deployment/{service}")
    lab.kubectl("rollout", "status", f"deployment/{service}", "--timeout=120s")


def _until_moved(lab: _Lab, service: str, protocol: Protocol, node: str) -> None:
    """Wait until other nodes announce a Service, and this one does not."""

    def is_moved() -> bool:
        announcing = lab.announcing(service, protocol)
        return bool(announcing) and node not in announcing

    _until(is_moved)


def _until(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (found := what()):
        if time.monotonic() > deadline:
            raise RuntimeError("the address did not move")
        time.sleep(0.2)
    return found
