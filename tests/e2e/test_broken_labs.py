"""One lab that is broken in one place after the other: doctor's first verdict is the cause that was made.

Each change is undone, and doctor is silent again. Most are made in the kernel of node2, whose proxy is stopped where it
would repair its rules at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bridgehead.cli.cluster_access import choose_cluster
from bridgehead.insight.doctor import reading
from bridgehead.insight.doctor.diagnosis import Diagnosis
from bridgehead.insight.doctor.subjects import Target
from bridgehead.insight.findings import Severity
from bridgehead.objects.meta import ObjectKey

from .conftest import Lab, Namespace, eventually, running

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule,
         labelSelector: {matchLabels: {app: web}}}
      containers: [{name: web, image: nginx, ports: [{name: http, containerPort: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, clusterIP: 10.96.0.50, selector: {app: web},
       ports: [{name: http, port: 80, targetPort: 80, nodePort: 30080}]}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec: {clusterIP: 10.96.0.51, selector: {app: web}, ports: [{name: http, port: 8080, targetPort: http}]}
"""
NODE = "node2"
WEB = "service/default/web"
KUBE_PROXY_TABLE = """
table ip kube-proxy {
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.96.0.50 . tcp . 80 comment "default/web:http" : goto service-AAAA-default/web/tcp/http }
  }
  chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
  chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
  chain service-AAAA-default/web/tcp/http { goto endpoint-BBBB-default/web/tcp/http__x; }
  chain endpoint-BBBB-default/web/tcp/http__x { meta l4proto tcp dnat to 10.244.9.9:80; }
}
"""

Change = Callable[["World"], Iterator[None]]


class Case(NamedTuple):
    name: str
    cause: str
    subject: str
    change: Change


CASES: list[Case] = []


def broken(cause: str, subject: str = WEB) -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        CASES.append(Case(change.__name__, cause, subject, change))
        return change

    return register


class World:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.ns = Namespace(lab, "default")
        self._cluster = choose_cluster("test", None, lab.name, lab.state_dir)

    def examine(self, *services: str) -> Diagnosis:
        async def look() -> Diagnosis:
            async with self._cluster.connect("test") as (client, namespaces):
                return await reading.examine(
                    client, namespaces, [Target(ObjectKey("default", each)) for each in services]
                )

        return asyncio.run(look())

    def is_settled(self) -> bool:
        """Whether no pod starts or ends. That changes EndpointSlices, and the next case may have stopped a proxy."""
        api = self.lab.api
        are_ready = all(
            each["status"].get("observedGeneration") == each["metadata"]["generation"]
            and each["status"].get("readyReplicas", 0) == each["spec"]["replicas"]
            for each in api.list("/apis/apps/v1/deployments")
        )
        return are_ready and not any("deletionTimestamp" in pod["metadata"] for pod in api.list("/api/v1/pods"))

    def node(self, command: str, node: str = NODE) -> str:
        result = self.lab.inside("sh", "-c", command, node=node)
        assert result.returncode == 0, (command, result.stderr)
        return str(result.stdout)

    def patch(self, path: str, changes: Any, kind: str = "merge") -> None:
        status, answer = self.lab.api.call("PATCH", path, json.dumps(changes), f"application/{kind}-patch+json")
        assert status == 200, answer

    def patch_service(self, spec: Any, name: str = "web") -> None:
        self.patch(self.ns.path(f"services/{name}"), {"spec": spec})

    @contextlib.contextmanager
    def stopped_proxy(self, node: str = NODE) -> Iterator[None]:
        """Stop the node's proxy. The kubelet does not restart it: its pods have no liveness probe here."""

        def processes() -> list[str]:
            return str(self.lab.inside("pgrep", "-f", f"^bridgehead proxy .*--node-name={node}( |$)").stdout).split()

        # A proxy that another case ended may still be there beside its successor.
        (pid,) = eventually(lambda: found if len(found := processes()) == 1 else None)
        assert self.lab.inside("kill", "-STOP", pid).returncode == 0
        try:
            yield
        finally:
            assert self.lab.inside("kill", "-CONT", pid).returncode == 0

    def repaired(self, command: str) -> Iterator[None]:
        """Run a command on the node while its proxy is stopped; the proxy repairs it afterwards."""
        with self.stopped_proxy():
            self.node(command)
            yield


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    lab = Lab("broken", tmp_path_factory.mktemp("broken"))
    patch = pytest.MonkeyPatch()
    patch.setattr(reading, "CONFIRM_SECONDS", 0.05)
    try:
        lab.start("--ephemeral", "--nodes=2", "--offline")
        probe = [{"op": "remove", "path": "/spec/template/spec/containers/0/livenessProbe"}]
        proxies = ("-n", "kube-system", "daemonset/kube-proxy")
        lab.kubectl("patch", *proxies, "--type=json", "-p", json.dumps(probe))
        lab.kubectl("rollout", "status", *proxies, "--timeout=120s")
        lab.api.apply("default", MANIFEST)
        found = World(lab)
        found.ns.rolled_out("deployment/web")
        eventually(lambda: not found.examine().findings, message=f"not healthy: {found.examine()}")
        yield found
    finally:
        patch.undo()
        lab.stop()


# --- Objects ------------------------------------------------------------------------------------------------------


@broken("SelectorMisspelled")
def selector_with_a_typing_error(world: World) -> Iterator[None]:
    world.patch_service({"selector": {"app": "wbe"}})
    yield
    world.patch_service({"selector": {"app": "web"}})


@broken("SelectorMatchesNothing")
def selector_of_nothing(world: World) -> Iterator[None]:
    world.patch_service({"selector": {"app": "database"}})
    yield
    world.patch_service({"selector": {"app": "web"}})


@broken("NoSelectorNoEndpoints", "service/default/web2")
def no_selector(world: World) -> Iterator[None]:
    world.lab.api.apply("default", "apiVersion: v1\nkind: Service\nmetadata: {name: web2}\nspec: {ports: [{port: 80}]}")
    yield
    world.lab.api.call("DELETE", world.ns.path("services/web2"))


@broken("ScaledToZero", "service/default/echo")
def scaled_to_zero(world: World) -> Iterator[None]:
    path = world.ns.path("deployments/web", "apis/apps/v1")
    world.patch(path, {"spec": {"replicas": 0}})
    yield
    world.patch(path, {"spec": {"replicas": 2}})


@broken("NothingListens")
def wrong_target_port(world: World) -> Iterator[None]:
    path = world.ns.path("services/web")
    operation = {"op": "replace", "path": "/spec/ports/0/targetPort", "value": 8080}
    world.patch(path, [operation], "json")
    yield
    world.patch(path, [{**operation, "value": 80}], "json")


@broken("TargetPortNameMissing", "service/default/echo")
def wrong_target_port_name(world: World) -> Iterator[None]:
    path = world.ns.path("services/echo")
    operation = {"op": "replace", "path": "/spec/ports/0/targetPort", "value": "htpp"}
    world.patch(path, [operation], "json")
    yield
    world.patch(path, [{**operation, "value": "http"}], "json")


@broken("ListensOnOtherProtocol", "service/default/echo")
def wrong_protocol(world: World) -> Iterator[None]:
    world.patch_service({"ports": [{"name": "http", "port": 8080, "targetPort": 80, "protocol": "UDP"}]}, "echo")
    yield
    world.patch_service({"ports": [{"name": "http", "port": 8080, "targetPort": "http"}]}, "echo")


@broken("LeftToOtherProxy")
def left_to_another_proxy(world: World) -> Iterator[None]:
    label = "service.kubernetes.io/service-proxy-name"
    world.patch(world.ns.path("services/web"), {"metadata": {"labels": {label: "other"}}})
    yield
    world.patch(world.ns.path("services/web"), {"metadata": {"labels": {label: None}}})


@broken("ExternalNameToNothing", "service/default/alias")
def alias_of_nothing(world: World) -> Iterator[None]:
    world.lab.api.apply(
        "default",
        "apiVersion: v1\nkind: Service\nmetadata: {name: alias}\n"
        "spec: {type: ExternalName, externalName: mysql.data.svc.cluster.local}",
    )
    yield
    world.lab.api.call("DELETE", world.ns.path("services/alias"))


@broken("LoadBalancerPoolUnknown", "service/default/echo")
def unknown_pool(world: World) -> Iterator[None]:
    path, annotation = world.ns.path("services/echo"), "metallb.io/address-pool"
    world.patch(path, {"metadata": {"annotations": {annotation: "absent"}}, "spec": {"type": "LoadBalancer"}})
    yield
    world.patch(path, {"metadata": {"annotations": {annotation: None}}, "spec": {"type": "ClusterIP"}})


@broken("NetworkPolicyForbidsIngress", "service/default/echo")
def network_policy(world: World) -> Iterator[None]:
    world.lab.api.apply(
        "default",
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny}\n"
        "spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}",
    )
    yield
    world.lab.api.call("DELETE", world.ns.path("networkpolicies/deny", "apis/networking.k8s.io/v1"))


@broken("DnsWithoutEndpoints", "service/kube-system/kube-dns")
def dns_scaled_to_zero(world: World) -> Iterator[None]:
    path = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
    world.patch(path, {"spec": {"replicas": 0}})
    yield
    world.patch(path, {"spec": {"replicas": 2}})


# --- Rules --------------------------------------------------------------------------------------------------------


@broken("RulesMissing")
def deleted_element(world: World) -> Iterator[None]:
    yield from world.repaired("nft delete element ip bridgehead services '{ 10.96.0.50 . tcp . 80 }'")


@broken("RulesMissing")
def deleted_node_port(world: World) -> Iterator[None]:
    yield from world.repaired("nft delete element ip bridgehead services '{ 0.0.0.0 . tcp . 30080 }'")


@broken("RulesMissing")
def element_that_leads_elsewhere(world: World) -> Iterator[None]:
    command = (
        "e='10.96.0.50 . tcp . 80 . 1:1'; nft delete element ip bridgehead endpoints \"{ $e }\" && "
        'nft add element ip bridgehead endpoints "{ $e : 10.244.9.9 . 80 }"'
    )
    yield from world.repaired(command)


@broken("RulesForeign", f"node/{NODE}")
def element_of_no_service(world: World) -> Iterator[None]:
    yield from world.repaired(
        "nft add element ip bridgehead services '{ 10.96.7.7 . tcp . 80 comment \"default/gone:\" : drop }'"
    )


@broken("RulesAltered", f"node/{NODE}")
def emptied_chain(world: World) -> Iterator[None]:
    yield from world.repaired("nft flush chain ip bridgehead nat-prerouting")


@broken("RulesAltered", f"node/{NODE}")
def rule_in_a_chain_of_the_proxy(world: World) -> Iterator[None]:
    yield from world.repaired("nft insert rule ip bridgehead nat-prerouting tcp dport 80 return")


@broken("NodeWithoutRules", f"node/{NODE}")
def flushed_ruleset(world: World) -> Iterator[None]:
    yield from world.repaired("nft delete table ip bridgehead")


@broken("TwoProxies", f"node/{NODE}")
def table_of_kube_proxy(world: World) -> Iterator[None]:
    world.node(f"nft -f - <<'END'\n{KUBE_PROXY_TABLE}\nEND")
    yield
    world.node("nft delete table ip kube-proxy")


@broken("RulesOfOtherMode", f"node/{NODE}")
def rules_of_mode_iptables(world: World) -> Iterator[None]:
    world.node(
        "iptables -t nat -N KUBE-SERVICES && iptables -t nat -N KUBE-SVC-4N57TFCL4MD7ZTDA && "
        "iptables -t nat -A PREROUTING -j KUBE-SERVICES && iptables -t nat -A KUBE-SERVICES -d 10.96.0.50/32 -p tcp "
        "-m comment --comment 'default/web:http cluster IP' -m tcp --dport 80 -j KUBE-SVC-4N57TFCL4MD7ZTDA"
    )
    yield
    world.node("iptables -t nat -F; iptables -t nat -X; nft delete table ip nat")


# --- Packet filters -----------------------------------------------------------------------------------------------


@broken("ForwardDropped", f"node/{NODE}")
def policy_of_docker(world: World) -> Iterator[None]:
    world.node("iptables -N DOCKER-USER && iptables -A FORWARD -j DOCKER-USER && iptables -P FORWARD DROP")
    yield
    world.node("iptables -P FORWARD ACCEPT && iptables -F && iptables -X && nft delete table ip filter")


@broken("ForwardDropped", f"node/{NODE}")
def firewall_that_rejects_the_rest(world: World) -> Iterator[None]:
    world.node(
        "nft 'table inet firewall { chain forward { type filter hook forward priority 10; "
        "ct state established,related accept; iifname lo accept; reject; }; }'"
    )
    yield
    world.node("nft delete table inet firewall")


@broken("PacketsDropped", "service/default/echo")
def firewall_against_the_target_port(world: World) -> Iterator[None]:
    world.node(
        "nft 'table inet firewall { chain forward { type filter hook forward priority 0; "
        "ip daddr 10.244.0.0/16 tcp dport 80 counter drop; }; }'"
    )
    yield
    world.node("nft delete table inet firewall")


@broken("PacketsDropped")
def firewall_against_node_ports(world: World) -> Iterator[None]:
    world.node("iptables -t raw -A PREROUTING -p tcp -m multiport --dports 30000:32767 -j DROP")
    yield
    world.node("iptables -t raw -F && nft delete table ip raw")


@broken("DnsNoAnswer", "service/kube-system/kube-dns")
def firewall_against_dns(world: World) -> Iterator[None]:
    world.node(
        "nft 'table inet firewall { chain output { type filter hook output priority -300; udp dport 53 drop; }; }'"
    )
    yield
    world.node("nft delete table inet firewall")


@broken("ConnectionsStale", "service/kube-system/kube-dns")
def flow_to_an_endpoint_that_is_gone(world: World) -> Iterator[None]:
    flow = "-p udp -s 10.0.0.202 -d 10.96.0.10 --sport 5555 --dport 53"
    world.node(f"conntrack -I {flow} -r 10.244.9.9 -q 10.0.0.202 --reply-port-src 53 --reply-port-dst 5555 -t 60")
    yield
    world.node(f"conntrack -D {flow}")


# --- Networks -----------------------------------------------------------------------------------------------------


@broken("ForwardingOff", f"node/{NODE}")
def forwarding_off(world: World) -> Iterator[None]:
    world.node("sysctl -qw net.ipv4.ip_forward=0")
    yield
    world.node("sysctl -qw net.ipv4.ip_forward=1")


@broken("MtuDiffers", f"node/{NODE}")
def small_mtu(world: World) -> Iterator[None]:
    world.node("ip link set eth0 mtu 1400")
    yield
    world.node("ip link set eth0 mtu 1500")


@broken("PodMtuTooLarge", f"node/{NODE}")
def small_mtu_of_a_tunnel(world: World) -> Iterator[None]:
    route = world.node("ip route show 10.244.1.0/24").strip()
    world.node("ip link add tunnel0 mtu 1450 type veth peer name tunnel1 && ip link set tunnel0 up")
    world.node("ip route replace 10.244.1.0/24 dev tunnel0")
    yield
    world.node(f"ip route replace {route} && ip link delete tunnel0")


@broken("PodRouteMissing", f"node/{NODE}")
def no_route_to_pods(world: World) -> Iterator[None]:
    route = world.node("ip route show 10.244.1.0/24").strip()
    world.node(f"ip route delete {route}")
    yield
    world.node(f"ip route add {route}")


@broken("PodRouteMissing", f"node/{NODE}")
def blackhole_for_pods(world: World) -> Iterator[None]:
    world.node("ip route add blackhole 10.244.1.0/25")
    yield
    world.node("ip route delete blackhole 10.244.1.0/25")


@broken("NoRouteToServices", f"node/{NODE}")
def no_default_route(world: World) -> Iterator[None]:
    route = world.node("ip -4 route show default").strip()
    world.node(f"ip route delete {route}")
    yield
    world.node(f"ip route add {route}")


@broken("ServiceCidrRouted", f"node/{NODE}")
def route_of_a_vpn(world: World) -> Iterator[None]:
    world.node("ip link add vpn0 type bridge && ip link set vpn0 up && ip route add 10.96.0.0/16 dev vpn0")
    yield
    world.node("ip link delete vpn0")


@broken("ClusterIPOnInterface")
def cluster_ip_on_an_interface(world: World) -> Iterator[None]:
    world.node("ip address add 10.96.0.50/32 dev eth0")
    yield
    world.node("ip address delete 10.96.0.50/32 dev eth0")


@broken("ReversePathFiltered", f"node/{NODE}")
def strict_reverse_path(world: World) -> Iterator[None]:
    route = world.node("ip route show 10.244.1.0/24").strip()
    world.node("ip link add second0 type veth peer name second1 && ip link set second0 up")
    world.node("sysctl -qw net.ipv4.conf.eth0.rp_filter=1")
    world.node("ip route replace 10.244.1.0/24 dev second0")
    yield
    world.node(f"ip route replace {route} && ip link delete second0 && sysctl -qw net.ipv4.conf.eth0.rp_filter=0")


@broken("BridgeBypassesRules", f"node/{NODE}")
def bridge_without_rules(world: World) -> Iterator[None]:
    before = world.node("sysctl -n net.bridge.bridge-nf-call-iptables").strip()
    world.node(
        "ip link add cni0 type bridge && ip address add 10.244.2.254/32 dev cni0 && ip link set cni0 up && "
        "sysctl -qw net.bridge.bridge-nf-call-iptables=0"
    )
    yield
    world.node(f"ip link delete cni0 && sysctl -qw net.bridge.bridge-nf-call-iptables={before}")


@broken("NodePortInUse")
def program_on_a_node_port(world: World) -> Iterator[None]:
    script = "import socket, time; s = socket.create_server(('', 30080)); time.sleep(300)"
    with running(*world.lab.argv_inside(sys.executable, "-I", "-S", "-c", script, node=NODE)):
        yield


# --- The test -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_first_verdict_is_the_cause_that_was_made(world: World, case: Case) -> None:
    seen: list[Any] = []

    def names_it() -> bool:
        findings = world.examine().findings
        seen[:] = [(each.cause, each.subject, each.text) for each in findings]
        return bool(findings) and (findings[0].cause, findings[0].subject) == (case.cause, case.subject)

    def is_silent() -> bool:
        seen[:] = world.examine().findings
        return not seen

    def wait(what: Callable[[], bool]) -> None:
        try:
            eventually(what)
        except pytest.fail.Exception:
            pytest.fail(f"{what.__name__}: {seen}")

    change = case.change(world)
    next(change)
    try:
        wait(names_it)
    finally:
        next(change, None)  # also after a failure, for the sake of the other cases
    eventually(world.is_settled)
    wait(is_silent)


def test_the_command_names_rules_that_somebody_deleted(world: World, tmp_path: Path) -> None:
    result = world.lab.command("doctor", "-n", "default", "service/web")
    assert (result.returncode, result.stdout) == (0, f"{WEB} is healthy.\n")
    with world.stopped_proxy():
        world.node("nft delete element ip bridgehead services '{ 10.96.0.50 . tcp . 80 }'")
        result = world.lab.command("doctor", "-n", "default", "service/web", "-o", "json")
    [finding] = [each for each in json.loads(result.stdout)["findings"] if each["subject"] == WEB]
    assert finding["cause"] == "RulesMissing"
    assert "Nothing serves 10.96.0.50:80/tcp of default/web:http" in finding["text"]
    assert finding["severity"] == Severity.DEGRADED
