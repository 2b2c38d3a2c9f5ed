"""Services and slices for the proxy's tests, of the pods of `proxy_world`, and who answered."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from .proxy_clients import TALK_PORT
from .proxy_world import NODE4, PORT, World, pod_ip

WEB4, WEB6 = "10.96.0.10", "fd00:96::10"
EXTERNAL = "203.0.113.7"
CLIENT_SIDES = ("pod1", "node", "client")


def service(name: str = "web", *, addresses: tuple[str, ...] = (WEB4,), **spec: Any) -> dict[str, Any]:
    port = {"name": "http", "port": 80, "protocol": "UDP" if spec.pop("udp", False) else "TCP"}
    if "nodePort" in spec:
        port["nodePort"] = spec.pop("nodePort")
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": addresses[0], "clusterIPs": addresses, "ports": [port], **spec},
    }


def slice_of(*pods: str, family: int = 4, node: str = "node1", udp: bool = False) -> dict[str, Any]:
    return {
        "metadata": {"name": f"web-{family}", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": f"IPv{family}",
        "ports": [{"name": "http", "protocol": "UDP" if udp else "TCP", "port": PORT}],
        "endpoints": [
            {"addresses": [pod_ip(pod, family)], "conditions": {"ready": True}, "nodeName": node} for pod in pods
        ],
    }


def talkers(*pods: str, family: int = 4) -> dict[str, Any]:
    """A slice of the servers with which one can go on talking (`proxy_clients.Conversations`)."""
    found = slice_of(*pods, family=family)
    found["ports"][0]["port"] = TALK_PORT
    return found


def dial_all(world: World, address4: str, address6: str, prefix: str = "") -> list[str]:
    """Connections to the servers of `talkers` in pod1 from everywhere; their names."""
    dialled = [
        ("client", address4, 80), ("client", address6, 80), ("client", NODE4, 30080),
        ("node", address4, 80), ("pod2", address4, 80), ("pod1", address4, 80),
    ]  # fmt: skip
    names = [f"{prefix} {where} {address} {port}" for where, address, port in dialled]
    for name, client_and_target in zip(names, dialled, strict=True):
        world.talk("dial", name, *client_and_target)
    assert exchange_all(world, names) == ["pod1"] * len(names)
    return names


def exchange_all(world: World, names: list[str]) -> list[str]:
    """The pods that answer on these connections."""
    return [world.talk("exchange", name) for name in names]


def sctp(document: dict[str, Any]) -> dict[str, Any]:
    """Return a Service or slice with its protocol changed to SCTP."""
    ports = document["spec"]["ports"] if "spec" in document else document["ports"]
    ports[0]["protocol"] = "SCTP"
    return document


def answered_by(answers: list[str]) -> Counter[str]:
    return Counter(answer.partition(" ")[0] for answer in answers)


def sticky(seconds: int = 10800, **spec: Any) -> dict[str, Any]:
    config = {"clientIP": {"timeoutSeconds": seconds}}
    return service(sessionAffinity="ClientIP", sessionAffinityConfig=config, **spec)


def pods_of(world: World, where: str, address: str = WEB4, port: int = 80, times: int = 8) -> set[str]:
    return set(answered_by(world.connect(where, address, port, times=times)))


def keeps_its_pod(world: World, seconds: float) -> tuple[float, str]:
    """The client connects for so long to a Service whose clients are forgotten after a second, and meets one pod.

    Since when that was so, by the monotonic clock, and which pod.
    """
    before = time.monotonic()
    (chosen,) = pods_of(world, "client", times=1)
    begun = last = time.monotonic()
    while last < begun + seconds:
        asked = last
        (pod,) = pods_of(world, "client", times=1)
        last = time.monotonic()
        if last > before + 0.9:  # from before one to after the next: the client may have been forgotten in between
            begun, chosen = last, pod
        assert pod == chosen
        before = asked
    return begun, chosen
