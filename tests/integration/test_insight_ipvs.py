"""`trace`, `rules`, `flows` and `doctor` in mode ipvs, in the guest, whose kernel has IPVS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridgehead.objects.addresses import join_host_port

from .insight_ipvs_world import InsightWorld
from .proxy_objects import sctp, service, slice_of, sticky
from .proxy_world import CLIENT4, NODE4, PODS, pod_ip

pytestmark = [pytest.mark.integration, pytest.mark.guest]

EACH = 300
BALANCER, EXTERNAL = "203.0.113.7", "198.51.100.5"
WEB4, STICKY, LONELY, LOCAL, ELSEWHERE, SCTP, UDP, HAIRPIN = (f"10.96.0.{number}" for number in range(10, 18))
WEB6 = "fd00:96::10"


def of(name: str, *slices: dict[str, Any]) -> list[dict[str, Any]]:
    """Return slices as those of the named Service."""
    for number, one in enumerate(slices):
        labels = {"kubernetes.io/service-name": name}
        one["metadata"] = {"name": f"{name}-{number}", "namespace": "default", "labels": labels}
    return list(slices)


def local(name: str, address: str, **spec: Any) -> dict[str, Any]:
    return service(name, addresses=(address,), externalTrafficPolicy="Local", **spec)


SERVICES = [
    service(addresses=(WEB4, WEB6), type="NodePort", nodePort=30080),
    sticky(1800, name="sticky", addresses=(STICKY,)),
    service("lonely", addresses=(LONELY,)),
    local("local", LOCAL, type="LoadBalancer", nodePort=30443, loadBalancerSourceRanges=["10.0.0.0/24"])
    | {"status": {"loadBalancer": {"ingress": [{"ip": BALANCER}]}}},
    local("elsewhere", ELSEWHERE, externalIPs=[EXTERNAL]),
    sctp(service("sctp", addresses=(SCTP,))),
    service("udp", addresses=(UDP,), udp=True),
    service("hairpin", addresses=(HAIRPIN,)),
]
SLICES = [
    *of("web", slice_of("pod1", "pod2"), slice_of("pod1", "pod2", family=6)),
    *of("sticky", slice_of("pod1", "pod2", "pod3")),
    *of("local", slice_of("pod1"), slice_of("pod2", node="node2")),
    *of("elsewhere", slice_of("pod2", node="node2")),
    *of("sctp", sctp(slice_of("pod3"))),
    *of("udp", slice_of("pod2", udp=True)),
    *of("hairpin", slice_of("pod1")),
]


@pytest.fixture(scope="module")
def world() -> Iterator[InsightWorld]:
    with InsightWorld("ipvs") as made:
        yield made


@pytest.fixture
def cluster(world: InsightWorld) -> InsightWorld:
    world.program(SERVICES, SLICES)
    return world


def test_every_line_is_read_and_explained(cluster: InsightWorld) -> None:
    found = cluster.rules()
    assert (found["problems"], found["unexplained"], found["differences"]) == ([], [], [])
    lines = {}
    for mechanism, owner, meaning, text in found["entries"]:
        assert meaning, text
        assert "another program" not in meaning, text
        lines[mechanism, owner, text.strip()] = meaning
    assert {mechanism for mechanism, *_ in lines} == {"iptables-legacy", "ipvs", "ip set", "address"}
    servers = {text: owner for mechanism, owner, text in lines if mechanism == "ipvs" and not text.startswith("->")}
    assert servers[f"TCP  {STICKY}:80 rr persistent 1800"] == "default/sticky:http"
    assert servers[f"SCTP {SCTP}:80 rr"] == "default/sctp:http"
    assert servers[f"TCP  {NODE4}:30443 rr"] == "default/local:http"
    assert {text.partition(" ")[0] for text in servers} == {"TCP", "UDP", "SCTP", "FWM"}
    assert all(servers.values())
    assert ("address", "default/lonely:", f"inet {LONELY}/32 scope global kube-ipvs0") in lines


CHANGES = {
    f"ipvsadm -e -t {HAIRPIN}:80 -r 10.244.1.1:8080 -m -w 0": ("missing backend", "default/hairpin:http"),
    f"ipvsadm -a -t {WEB4}:80 -r 10.244.1.3:8080 -m": ("foreign backend", "default/web:http"),
    f"ipvsadm -E -t {STICKY}:80 -s rr": ("virtual server", "default/sticky:http"),  # without persistence
    f"ipvsadm -D -u {UDP}:80": ("missing destination", "default/udp:http"),
    f"ipvsadm -A -t {UDP}:81 -s rr": ("foreign destination", ""),
    "ipvsadm -A -t 192.0.2.1:80 -s rr": None,  # of another program
    f"ipset del KUBE-LOAD-BALANCER-FW {BALANCER},tcp:80": ("set element", "default/local:http"),
    f"ipset add KUBE-CLUSTER-IP {EXTERNAL},tcp:80": ("set element", "default/elsewhere:http"),
    f"ipset add KUBE-CLUSTER-IP {EXTERNAL},icmp:8/0": None,
    f"ip address del {SCTP}/32 dev kube-ipvs0": ("address", "default/sctp:"),
    "ip address add 192.0.2.9/32 dev kube-ipvs0": ("address", ""),
    "iptables-legacy -t nat -D KUBE-POSTROUTING 1": ("chain", ""),
}
OBJECTS = ("virtual servers", "IP sets", "interfaces")


def test_changes_by_others_are_found(cluster: InsightWorld) -> None:
    cluster.run("sh", "-ec", "; ".join(CHANGES))
    found = [(kind, owner) for kind, owner, _ in cluster.rules(*OBJECTS, "iptables-legacy")["differences"]]
    assert sorted(found) == sorted(filter(None, CHANGES.values()))
    causes = {(cause, subject) for cause, subject, _ in cluster.doctor()}
    assert {
        ("RulesMissing", "service/default/hairpin"),
        ("RulesForeign", "service/default/web"),
        ("RulesMissing", "service/default/sticky"),
        ("RulesMissing", "service/default/udp"),
        ("RulesMissing", "service/default/local"),
        ("IpvsAddressMissing", "service/default/sctp"),
        ("RulesForeign", "node/node1"),
        ("RulesAltered", "node/node1"),
    } <= causes
    cluster.run("ipvsadm", "-D", "-t", "192.0.2.1:80")
    assert cluster.ask("verify", thoroughly=True) is not None
    assert cluster.rules(*OBJECTS, "iptables-legacy")["differences"] == []


def test_clients_of_a_pod_that_is_gone_are_found(cluster: InsightWorld) -> None:
    """Another program resets sysctls: clients with affinity keep a pod that is no endpoint any more."""
    before = {cause for cause, *_ in cluster.doctor("sysctls", *OBJECTS)}
    names = "net.ipv4.vs.expire_quiescent_template", "net.ipv4.vs.conntrack"
    cluster.run("sysctl", "-w", *(f"{name}=0" for name in names))
    (answer,) = cluster.connect("pod1", STICKY, 80)
    assert cluster.connect("client", WEB4, 80)[0].endswith(f" from {CLIENT4}"), "it is not masqueraded"
    assert cluster.connect("pod1", HAIRPIN, 80) == ["timeout"]
    chosen = answer.partition(" ")[0]
    others = [pod for pod in PODS if pod != chosen]
    slices = [one for one in SLICES if one["metadata"]["name"] != "sticky-0"]
    cluster.program(SERVICES, [*slices, *of("sticky", slice_of(*others))], sets_sysctls=False)
    assert cluster.connect("pod1", STICKY, 80) == [answer]
    report = cluster.trace("pod1", STICKY, 80)
    assert report["seen"]["pod"] == f"default/{chosen}"
    assert "none of its backends" in report["differences"][0]
    found = [(cause, subject) for cause, subject, _ in cluster.doctor("sysctls", *OBJECTS)]
    assert {cause for cause, _ in found} - before == {"AffinityToGonePod", "IpvsUntracked"}
    assert ("AffinityToGonePod", "service/default/sticky") in found


def test_connections_have_their_service_client_and_backend(cluster: InsightWorld) -> None:
    cluster.ask("serve_sctp")
    made = [
        ("client", NODE4, 30443, "default/local:http", "", {"pod1"}),
        ("node", BALANCER, 80, "default/local:http", "node node1", {"pod1", "pod2"}),
        ("pod2", WEB4, 80, "default/web:http", "pod default/pod2", {"pod1", "pod2"}),
        ("pod1", HAIRPIN, 80, "default/hairpin:http", "pod default/pod1", {"pod1"}),
        ("pod2", WEB6, 80, "default/web:http", "pod default/pod2", {"pod1", "pod2"}),
    ]
    answers = [cluster.connect(where, address, port)[0].partition(" ")[0] for where, address, port, *_ in made]
    answers += [answer.partition(" ")[0] for answer in cluster.ask(
        "connect_sctp", where="pod1", address=SCTP, port=80, times=1
    )]  # fmt: skip
    made.append(("pod1", SCTP, 80, "default/sctp:http", "pod default/pod1", {"pod3"}))
    flows = cluster.service_flows()
    for (_, address, port, owner, client, backends), pod in zip(made, answers, strict=True):
        assert pod in backends
        (found,) = (one for one in flows if one["service"] == owner)
        destination = join_host_port(address, port)
        (flow,) = (one for one in found["connections"] if one["destination"] == destination)
        assert (flow["clientName"], flow["backendName"], flow["problem"]) == (client, f"pod default/{pod}", "")


TRACES = [
    # from, to, port, protocol, the backend's pod, the client that it sees; "": no connection
    ("client", NODE4, 30443, "tcp", ("default/pod1",), CLIENT4),
    ("node", BALANCER, 80, "tcp", ("default/pod1", "default/pod2"), NODE4),
    ("pod1", SCTP, 80, "sctp", ("default/pod3",), pod_ip("pod1")),
    ("client", EXTERNAL, 80, "tcp", ("",), ""),
]


def test_traced_connections_go_where_they_should(cluster: InsightWorld) -> None:
    cluster.ask("serve_sctp")
    for where, address, port, protocol, pods, client in TRACES:
        report = cluster.trace(where, address, port, protocol)
        works = bool(client)
        assert (report["works"], report["differences"], report["unseen"]) == (works, [], []), report["verdict"]
        assert report["seen"]["pod"] in pods, report["verdict"]
        assert report["seen"]["client"] == client, report["verdict"]
        states = {step["name"]: step["state"] for step in report["steps"]}
        assert (set(states.values()) == {"ok"}) is works, report["steps"]
        rules = next(step for step in report["steps"] if step["name"] == "rules")
        assert any("Masq" in line for line in rules["evidence"])


def test_a_trace_names_a_foreign_real_server(cluster: InsightWorld) -> None:
    real = f"ipvsadm -d -t {HAIRPIN}:80 -r 10.244.1.1:8080; ipvsadm -a -t {HAIRPIN}:80 -r 10.244.1.3:8080 -m"
    cluster.run("sh", "-ec", real)
    report = cluster.trace("pod2", HAIRPIN, 80)
    assert report["seen"]["pod"] == "default/pod3"
    assert report["differences"] == [
        "node1 sent it to pod default/pod3 (10.244.1.3:8080), which is none of its backends: 10.244.1.1:8080",
        f"node1: {HAIRPIN}:80/tcp of default/hairpin:http lacks 10.244.1.1:8080.",
        f"node1: {HAIRPIN}:80/tcp of default/hairpin:http also leads to 10.244.1.3:8080.",
    ]


def test_expected_fates_backends_and_clients_are_the_real_ones(world: InsightWorld) -> None:
    """Node ports, source ranges, traffic policies, affinity, hairpin, Services without endpoints; from every origin."""
    found = world.compare(seed=28, count=EACH)
    assert not found["differences"], "\n".join(found["differences"])
    assert sum(found["fates"].values()) == EACH
    assert {"translated", "rejected", "dropped"} <= found["fates"].keys()
