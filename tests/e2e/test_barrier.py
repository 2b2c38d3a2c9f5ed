"""No connection is lost when pods end, although their servers exit at once on SIGTERM and have no preStop hook."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from .conftest import Lab, Namespace, eventually, running
from .test_publishing import NODES

# Serves one connection after another, closes each after its answer, and exits at once on SIGTERM.
SERVER = r"""
use IO::Socket::INET; use POSIX;
$SIG{TERM} = sub { POSIX::_exit(0) };
my $listener = IO::Socket::INET->new(LocalPort => 8080, Listen => 128, ReuseAddr => 1) or die;
while (1) {
  my $client = $listener->accept or next;
  sysread($client, my $request, 4096);
  syswrite($client, "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nyes");
  close($client);
}
"""

# A new connection for each request, a few at a time, until standard input ends.
CLIENT = r"""
import asyncio, collections, json, sys, time

async def ask(host, port):
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            if not (await reader.read()).endswith(b"yes"):
                raise EOFError("no answer")
        finally:
            writer.close()

async def main(host, port):
    asked = collections.Counter()
    loop = asyncio.get_running_loop()
    stop = loop.run_in_executor(None, sys.stdin.read)

    async def go_on():
        while not stop.done():
            begun = time.time()
            try:
                await ask(host, int(port))
                asked["answered"] += 1
            except (OSError, TimeoutError, EOFError) as error:
                asked[f"{error!r}, begun at {begun:.2f}, after {time.time() - begun:.2f} s"] += 1
            if asked["answered"] == 20:
                print("begun", flush=True)
            await asyncio.sleep(0.005)

    await asyncio.gather(*(go_on() for _ in range(4)))
    print(json.dumps(asked))

asyncio.run(main(*sys.argv[1:]))
"""


@dataclass
class Load:
    """A client that sends requests all the time; `stop` returns the numbers of its results."""

    process: subprocess.Popen[str]

    def stop(self) -> dict[str, int]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        return json.loads(self.process.stdout.read().splitlines()[-1])


@contextlib.contextmanager
def load(lab: Lab, address: str, port: int, node: str | None = None) -> Iterator[Load]:
    client = lab.argv_inside(sys.executable, "-c", CLIENT, address, port, node=node)
    with running(*client, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield Load(process)


def deploy(ns: Namespace, *, node: str = "", surge: int = 3, **service: Any) -> None:
    """Three replicas of the server and a Service `abrupt`; on one node, when it is named.

    A rolling update replaces so many at a time.
    """
    container = {
        "name": "server",
        "image": "wangxiaochun/admin-box",
        "command": ["perl", "-e", SERVER],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }
    pod = {"containers": [container], **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {})}
    template = {"metadata": {"labels": {"app": "abrupt"}}, "spec": pod}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "abrupt"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "abrupt"}},
            "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}},
            "template": template,
        },
    }
    its_service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "abrupt"},
        "spec": {"selector": {"app": "abrupt"}, "ports": [{"port": 80, "targetPort": 8080}], **service},
    }
    ns.apply("\n".join(json.dumps(document) for document in (deployment, its_service)))
    ns.rolled_out("deployment/abrupt")
    ns.wait_endpoints("abrupt", 3)


def delete_one(ns: Namespace) -> None:
    ns.kubectl("delete", ns.kubectl("get", "pods", "-l", "app=abrupt", "-o", "name").split()[0])
    ns.rolled_out("deployment/abrupt")


def restart(ns: Namespace) -> None:
    ns.kubectl("rollout", "restart", "deployment/abrupt")
    ns.rolled_out("deployment/abrupt")


def scale_down(ns: Namespace) -> None:
    ns.kubectl("scale", "deployment/abrupt", "--replicas=1")
    eventually(lambda: len(ns.pods("app=abrupt")) == 1)
    ns.kubectl("scale", "deployment/abrupt", "--replicas=3")
    ns.rolled_out("deployment/abrupt")


def check(lab: Lab, ns: Namespace, fared: dict[str, int]) -> None:
    assert fared.pop("answered") >= 20
    if fared:
        log = (lab.command("logs", f"kubelet-{node}").stdout for node in NODES)
        pytest.fail("\n".join([f"lost: {fared}", ns.kubectl("get", "events"), *log]))


def test_a_rolling_update_loses_no_connection(lab: Lab, ns: Namespace) -> None:
    deploy(ns, surge=1, type="NodePort")
    ip, port = ns.cluster_ip("abrupt"), node_port(ns)
    with (
        load(lab, ip, 80) as outside,
        load(lab, ip, 80, node="node1") as inside,
        load(lab, NODES["node3"], port) as published,
    ):
        delete_one(ns)
        restart(ns)
        scale_down(ns)
        for client in (outside, inside, published):
            check(lab, ns, client.stop())


def test_a_rolling_update_with_a_local_policy_loses_no_connection(lab: Lab, ns: Namespace) -> None:
    # Connections are served on the node where they arrive, which has to have pods all the time.
    deploy(ns, node="node2", type="NodePort", externalTrafficPolicy="Local")
    port = node_port(ns)
    with load(lab, NODES["node2"], port) as outside, load(lab, NODES["node2"], port, node="node1") as inside:
        delete_one(ns)
        restart(ns)
        scale_down(ns)
        for client in (outside, inside):
            check(lab, ns, client.stop())


def node_port(ns: Namespace) -> int:
    return ns.get("services", "abrupt")["spec"]["ports"][0]["nodePort"]


def signal_proxy(lab: Lab, node: str, number: str) -> None:
    found = lab.inside("pgrep", "-f", f"^bridgehead proxy .*--node-name={node}( |$)")
    assert found.returncode == 0, found.stderr
    assert lab.inside("kill", f"-{number}", found.stdout.split()[0]).returncode == 0


def test_a_proxy_that_hangs_delays_a_deletion_by_the_bound(lab: Lab, ns: Namespace) -> None:
    deploy(ns)
    pod = ns.pods("app=abrupt")[0]
    name, where = pod["metadata"]["name"], pod["spec"]["nodeName"]
    signal_proxy(lab, "node3", "STOP")
    try:
        # All of it soon: after 20 s the kubelet's liveness probe ends a proxy that hangs.
        ns.kubectl("delete", "pod", name, "--wait=false")
        ns.kubectl("label", "service/abrupt", "changed=yes")

        def behind() -> set[str]:
            result = lab.command("wait", "-n", ns.name, "service/abrupt", "--timeout=1s")
            assert result.returncode == 1
            return set(re.findall(r"node\d", result.stderr))

        eventually(lambda: behind() == {"node3"})
        ns.gone(name)
    finally:
        signal_proxy(lab, "node3", "CONT")
    log = lab.command("logs", f"kubelet-{where}").stdout
    expected = rf"pod {ns.name}/{name.removeprefix('pod/')}: stopped after 5.0 s although the proxy of node3 may still"
    assert re.search(expected, log), log
    ns.programmed("abrupt")
