"""The Kubernetes DNS specification 1.1.0, as questions about one cluster and their answers as record lines."""

from __future__ import annotations

from typing import Any

import dnslib
import pytest

from bridgehead.dns.config import ZoneSettings
from bridgehead.dns.zone import pod_records, service_records, zone_file
from bridgehead.objects.meta import ObjectKey
from tests.unit.dns.world import ask, build_zone, lines, read_objects, ready

CLUSTER = """
kind: Namespace
metadata: {name: default}
---
kind: Namespace
metadata: {name: empty}
---
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.9, ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]}
---
kind: Service
metadata: {name: unnamed}
spec: {clusterIP: 10.96.0.11, ports: [{port: 80}]}
---
kind: Service
metadata: {name: dual}
spec: {clusterIP: 10.96.0.12, clusterIPs: [10.96.0.12, "fd00:0:0::C"], ports: [{name: http, port: 80}]}
---
kind: Service
metadata: {name: six}
spec: {clusterIP: "fd00::6", clusterIPs: ["fd00::6"], ports: [{name: http, port: 80}]}
---
kind: Service
metadata: {name: pending}
spec: {clusterIP: ""}
---
kind: Service
metadata: {name: svc}
spec: {clusterIP: 10.96.0.14}
---
kind: Service
metadata: {name: httpd-svc}
spec: {clusterIP: None, clusterIPs: [None], ports: [{name: http, port: 80}]}
---
kind: EndpointSlice
metadata: {name: httpd-svc-b, labels: {kubernetes.io/service-name: httpd-svc}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}, {name: gone, protocol: TCP}, {port: 99}]
endpoints:
- {addresses: [10.244.2.71], conditions: {ready: true}}
- {addresses: [10.244.1.5]}
- {addresses: [10.244.1.6], conditions: {ready: false, serving: true, terminating: true}}
- {addresses: [10.244.1.7], conditions: {ready: false}}
---
kind: EndpointSlice
metadata: {name: httpd-svc-a, labels: {kubernetes.io/service-name: httpd-svc}}
addressType: IPv6
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: ["fd00:1::71"], conditions: {ready: true}}
---
kind: Service
metadata: {name: db}
spec: {clusterIP: None, ports: [{name: sql, port: 5432}]}
---
kind: EndpointSlice
metadata: {name: db-4, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: sql, port: 5432, protocol: TCP}]
endpoints: [{addresses: [10.244.1.8], hostname: db-0}, {addresses: [10.244.1.9], hostname: db-1}]
---
kind: EndpointSlice
metadata: {name: db-6, labels: {kubernetes.io/service-name: db}}
addressType: IPv6
ports: [{name: sql, port: 5432, protocol: TCP}]
endpoints: [{addresses: ["fd00:1::8"], hostname: db-0}]
---
kind: EndpointSlice
metadata: {name: db-fqdn, labels: {kubernetes.io/service-name: db}}
addressType: FQDN
endpoints: [{addresses: [elsewhere.example]}]
---
kind: Service
metadata: {name: unready}
spec: {clusterIP: None, publishNotReadyAddresses: true}
---
kind: EndpointSlice
metadata: {name: unready, labels: {kubernetes.io/service-name: unready}}
addressType: IPv4
endpoints: [{addresses: [10.244.1.20], conditions: {ready: false}}]
---
kind: Service
metadata: {name: draining}
spec: {clusterIP: None}
---
kind: EndpointSlice
metadata: {name: draining, labels: {kubernetes.io/service-name: draining}}
addressType: IPv4
endpoints:
- {addresses: [10.244.1.21], conditions: {ready: false, serving: true, terminating: true}}
- {addresses: [10.244.1.22], conditions: {ready: false, serving: false, terminating: true}}
---
kind: Service
metadata: {name: nobody}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
kind: Service
metadata: {name: outside}
spec: {type: ExternalName, externalName: www.Example.com.}
---
kind: Service
metadata: {name: numeric}
spec: {type: ExternalName, externalName: 192.0.2.7}
---
kind: Service
metadata: {name: numeric6}
spec: {type: ExternalName, externalName: "2001:db8::7"}
---
kind: Service
metadata: {name: web, namespace: other}
spec: {clusterIP: 10.96.0.13}
"""

END = "cluster.local."
SVC = f"default.svc.{END}"
SOA = f"{END} 0 SOA ns.dns.{END} hostmaster.{END} 7 7200 1800 86400 0"
OK, NX = "NOERROR", "NXDOMAIN"

# Question, rcode, answer section; without records the authority section has the SOA.
TABLE: list[tuple[str, str, list[str]]] = [
    # 2.2 schema version
    (f"dns-version.{END} TXT", OK, [f'dns-version.{END} 5 TXT "1.1.0"']),
    # 2.3.1 A and AAAA of Services with a cluster IP
    (f"web.{SVC} A", OK, [f"web.{SVC} 5 A 10.96.0.9"]),
    (f"web.{SVC} AAAA", OK, []),
    (f"web.{SVC} MX", OK, []),
    (f"web.other.svc.{END} A", OK, [f"web.other.svc.{END} 5 A 10.96.0.13"]),
    (f"dual.{SVC} A", OK, [f"dual.{SVC} 5 A 10.96.0.12"]),
    (f"dual.{SVC} AAAA", OK, [f"dual.{SVC} 5 AAAA fd00::c"]),
    (f"six.{SVC} A", OK, []),
    (f"six.{SVC} AAAA", OK, [f"six.{SVC} 5 AAAA fd00::6"]),
    (f"svc.{SVC} A", OK, [f"svc.{SVC} 5 A 10.96.0.14"]),
    (f"pending.{SVC} A", NX, []),
    (f"nothing.{SVC} A", NX, []),
    (f"x.web.{SVC} A", NX, []),
    # 2.3.2 SRV
    (f"_http._tcp.web.{SVC} SRV", OK, [f"_http._tcp.web.{SVC} 5 SRV 0 100 80 web.{SVC}"]),
    (f"_dns._udp.web.{SVC} SRV", OK, [f"_dns._udp.web.{SVC} 5 SRV 0 100 53 web.{SVC}"]),
    (f"_http._udp.web.{SVC} SRV", NX, []),
    (f"_tcp.web.{SVC} SRV", OK, []),
    (f"_http._tcp.web.{SVC} A", OK, []),
    (f"_tcp.unnamed.{SVC} SRV", NX, []),
    # 2.3.3 PTR
    ("9.0.96.10.in-addr.arpa. PTR", OK, [f"9.0.96.10.in-addr.arpa. 5 PTR web.{SVC}"]),
    (
        "6.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR",
        OK,
        [f"6.{'0.' * 27}0.0.d.f.ip6.arpa. 5 PTR six.{SVC}"],
    ),
    # 2.4.1 headless: every ready endpoint, of both families
    (f"httpd-svc.{SVC} A", OK, [f"httpd-svc.{SVC} 5 A 10.244.1.5", f"httpd-svc.{SVC} 5 A 10.244.2.71"]),
    (f"httpd-svc.{SVC} AAAA", OK, [f"httpd-svc.{SVC} 5 AAAA fd00:1::71"]),
    (f"unready.{SVC} A", OK, [f"unready.{SVC} 5 A 10.244.1.20"]),
    (f"draining.{SVC} A", OK, [f"draining.{SVC} 5 A 10.244.1.21"]),
    (f"nobody.{SVC} A", OK, []),
    # endpoint names: the hostname, else the address with dashes
    (f"10-244-2-71.httpd-svc.{SVC} A", OK, [f"10-244-2-71.httpd-svc.{SVC} 5 A 10.244.2.71"]),
    (f"fd00-1--71.httpd-svc.{SVC} AAAA", OK, [f"fd00-1--71.httpd-svc.{SVC} 5 AAAA fd00:1::71"]),
    (f"10-244-1-7.httpd-svc.{SVC} A", NX, []),
    (f"db-0.db.{SVC} A", OK, [f"db-0.db.{SVC} 5 A 10.244.1.8"]),
    (f"db-0.db.{SVC} AAAA", OK, [f"db-0.db.{SVC} 5 AAAA fd00:1::8"]),
    (f"db-1.db.{SVC} AAAA", OK, []),
    (f"10-244-1-8.db.{SVC} A", NX, []),
    # 2.4.2 SRV of headless Services, by the slices' ports
    (
        f"_http._tcp.httpd-svc.{SVC} SRV",
        OK,
        [
            f"_http._tcp.httpd-svc.{SVC} 5 SRV 0 33 8080 {host}.httpd-svc.{SVC}"
            for host in ("10-244-1-5", "10-244-2-71", "fd00-1--71")
        ],
    ),
    (
        f"_sql._tcp.db.{SVC} SRV",
        OK,
        [f"_sql._tcp.db.{SVC} 5 SRV 0 50 5432 {host}.db.{SVC}" for host in ("db-0", "db-1")],
    ),
    (f"_gone._tcp.httpd-svc.{SVC} SRV", NX, []),
    # 2.4.3 PTR of endpoints
    ("71.2.244.10.in-addr.arpa. PTR", OK, [f"71.2.244.10.in-addr.arpa. 5 PTR 10-244-2-71.httpd-svc.{SVC}"]),
    ("8.1.244.10.in-addr.arpa. PTR", OK, [f"8.1.244.10.in-addr.arpa. 5 PTR db-0.db.{SVC}"]),
    # 2.5 ExternalName
    (f"outside.{SVC} CNAME", OK, [f"outside.{SVC} 5 CNAME www.example.com."]),
    (f"outside.{SVC} TXT", OK, [f"outside.{SVC} 5 CNAME www.example.com."]),
    (f"numeric.{SVC} A", NX, []),  # as with CoreDNS: an address is no target of an alias, and no record
    (f"numeric.{SVC} CNAME", NX, []),
    (f"numeric6.{SVC} AAAA", NX, []),
    # pods
    (f"10-1-2-3.default.pod.{END} A", OK, [f"10-1-2-3.default.pod.{END} 5 A 10.1.2.3"]),
    (f"10-1-2-3.default.pod.{END} AAAA", OK, []),
    (f"fd00--3.empty.pod.{END} AAAA", OK, [f"fd00--3.empty.pod.{END} 5 AAAA fd00::3"]),
    (f"10-1-2-3.nowhere.pod.{END} A", NX, []),
    (f"10-1-2-300.default.pod.{END} A", NX, []),
    (f"x.10-1-2-3.default.pod.{END} A", NX, []),
    (f"pod.{END} A", OK, []),
    (f"default.pod.{END} A", OK, []),
    # what exists without having records, and what does not
    (f"{END} A", OK, []),
    (f"{END} SOA", OK, [f"{END} 5 SOA ns.dns.{END} hostmaster.{END} 7 7200 1800 86400 0"]),
    (f"{END} NS", OK, [f"{END} 5 NS ns.dns.{END}"]),
    (f"ns.dns.{END} A", OK, [f"ns.dns.{END} 5 A 10.96.0.10"]),
    (f"dns.{END} A", OK, []),
    (f"svc.{END} A", OK, []),
    (f"default.svc.{END} A", OK, []),
    (f"empty.svc.{END} A", OK, []),
    (f"other.svc.{END} A", OK, []),
    (f"nowhere.svc.{END} A", NX, []),
    (f"nowhere.{END} A", NX, []),
    (f"www.example.com.{SVC} A", NX, []),
]


@pytest.fixture(scope="module")
def zone():
    zone = build_zone(read_objects(CLUSTER))
    zone.set_name_server(("10.96.0.10",))
    return zone


@pytest.mark.parametrize(("question", "rcode", "expected"), TABLE, ids=[question for question, _, _ in TABLE])
@pytest.mark.parametrize("shape", ["plain", "edns", "tcp"])
def test_answers_follow_the_specification(zone, question, rcode, expected, shape):
    name, _, kind = question.partition(" ")
    responder = ready(zone)
    for _ in range(2):  # the second time by the short way
        reply = ask(responder, name, kind, udp=shape != "tcp", edns=1232 if shape == "edns" else 0)
        header = reply.header
        assert (dnslib.RCODE[header.rcode], lines(reply.rr)) == (rcode, sorted(expected))
        assert (header.qr, header.aa, header.rd, header.ra, header.tc) == (1, 1, 1, 1, 0)
        authority = lines(reply.auth)
        assert authority == ([] if expected else [SOA])
        assert str(reply.q.qname) == name


def test_every_record_of_the_zone_is_queried_by_the_table(zone):
    """The dump lists all records; a record that no row of the table expects is an untested one."""
    shown = set(zone_file(zone).splitlines()[1:])
    asked = {line.replace(" 5 ", " 5 IN ", 1) for _, _, expected in TABLE for line in expected}
    # More of the same kind, for names that are there for other rows.
    unasked = {line for line in shown - asked if line.split()[3] not in ("PTR", "SRV", "A", "AAAA")}
    assert unasked == set()
    assert {line for line in asked - shown if ".pod." not in line} == set()


def test_addresses_of_targets_are_additional_records(zone):
    reply = ask(ready(zone), f"_sql._tcp.db.{SVC}", "SRV", udp=False)
    assert lines(reply.ar) == [
        f"db-0.db.{SVC} 5 A 10.244.1.8",
        f"db-0.db.{SVC} 5 AAAA fd00:1::8",
        f"db-1.db.{SVC} 5 A 10.244.1.9",
    ]
    assert lines(ask(ready(zone), END, "NS").ar) == [f"ns.dns.{END} 5 A 10.96.0.10"]


@pytest.mark.parametrize("mode", ["disabled", "verified"])
def test_pod_names_follow_their_mode(mode):
    objects = read_objects(
        """
kind: Pod
metadata: {name: p, namespace: default}
status: {phase: Running, podIP: 10.244.1.2, podIPs: [{ip: 10.244.1.2}, {ip: "fd00::2"}]}
---
kind: Pod
metadata: {name: done}
status: {phase: Succeeded, podIP: 10.244.1.3}
---
kind: Namespace
metadata: {name: default}
"""
    )
    responder = ready(build_zone(objects, ZoneSettings(pods=mode)))
    if mode == "disabled":
        assert ask(responder, f"pod.{END}").header.rcode == dnslib.RCODE.NXDOMAIN
        assert ask(responder, f"10-244-1-9.default.pod.{END}").header.rcode == dnslib.RCODE.NXDOMAIN
        return
    assert lines(ask(responder, f"10-244-1-2.default.pod.{END}").rr) == [f"10-244-1-2.default.pod.{END} 5 A 10.244.1.2"]
    assert lines(ask(responder, f"fd00--2.default.pod.{END}", "AAAA").rr) == [
        f"fd00--2.default.pod.{END} 5 AAAA fd00::2"
    ]
    for other in ("10-244-1-3.default", "10-244-1-2.kube-system", "10-9-9-9.default"):
        assert ask(responder, f"{other}.pod.{END}").header.rcode == dnslib.RCODE.NXDOMAIN


def test_a_pod_name_exists_while_any_pod_has_the_address():
    """Pods that use their node's network share its address."""
    text = "kind: Pod\nmetadata: {name: %s}\nstatus: {phase: %s, podIP: 10.0.0.201, podIPs: [{ip: 10.0.0.201}]}\n"
    zone = build_zone(
        read_objects(
            "---\n".join(
                (text % ("a", "Running"), text % ("b", "Running"), "kind: Namespace\nmetadata: {name: default}\n")
            )
        ),
        ZoneSettings(pods="verified"),
    )
    name = f"10-0-0-201.default.pod.{END}"
    assert not zone.set_pod(ObjectKey("default", "a"), {})
    assert lines(ask(ready(zone), name).rr) == [f"{name} 5 A 10.0.0.201"]
    [restarted] = read_objects(text % ("b", "Running"))
    assert not zone.set_pod(restarted.key, pod_records(restarted, zone.settings.domain))
    [done] = read_objects(text % ("b", "Succeeded"))
    assert zone.set_pod(done.key, pod_records(done, zone.settings.domain))
    assert ask(ready(zone), name).header.rcode == dnslib.RCODE.NXDOMAIN


MORE = """
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9], ports: [{name: http, port: 80}, {port: 443}]}
---
kind: EndpointSlice
metadata: {name: web-a, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}, {port: 8443}]
endpoints:
- {addresses: [10.244.1.8], hostname: web-0}
- {addresses: [10.244.1.9]}
- {addresses: [10.244.1.10], conditions: {ready: false}}
---
kind: Service
metadata: {name: db}
spec: {clusterIP: None}
---
kind: EndpointSlice
metadata: {name: db-a, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{port: 5432}, {name: admin, port: 99, protocol: TCP}]
endpoints: [{addresses: [10.244.1.11], hostname: db-0}]
---
kind: Service
metadata: {name: portless}
spec: {clusterIP: None}
---
kind: Service
metadata: {name: ext}
spec: {type: ExternalName, externalName: www.example.com}
"""


@pytest.mark.parametrize(
    ("question", "rcode", "expected", "additional"),
    [
        (f"web-0.web.{SVC} A", OK, [f"web-0.web.{SVC} 5 A 10.244.1.8"], []),
        (f"WEB-0.web.{SVC} AAAA", OK, [], None),
        (f"10-244-1-9.web.{SVC} A", OK, [f"10-244-1-9.web.{SVC} 5 A 10.244.1.9"], []),
        (f"10-244-1-10.web.{SVC} A", NX, [], None),
        (f"web-0.nobody.{SVC} A", NX, [], None),
        (f"x.web-0.web.{SVC} A", NX, [], None),
        (
            f"web.{SVC} SRV",
            OK,
            [f"web.{SVC} 5 SRV 0 50 443 web.{SVC}", f"web.{SVC} 5 SRV 0 50 80 web.{SVC}"],
            [f"web.{SVC} 5 A 10.96.0.9"],
        ),
        (
            f"db.{SVC} SRV",
            OK,
            [f"db.{SVC} 5 SRV 0 50 5432 db-0.db.{SVC}", f"db.{SVC} 5 SRV 0 50 99 db-0.db.{SVC}"],
            [f"db-0.db.{SVC} 5 A 10.244.1.11"],
        ),
        (f"portless.{SVC} SRV", OK, [], None),
        (f"ext.{SVC} SRV", OK, [f"ext.{SVC} 5 CNAME www.example.com."], None),
        (
            f"db-0.db.{SVC} SRV",
            OK,
            [f"db-0.db.{SVC} 5 SRV 0 50 5432 db-0.db.{SVC}", f"db-0.db.{SVC} 5 SRV 0 50 99 db-0.db.{SVC}"],
            [f"db-0.db.{SVC} 5 A 10.244.1.11"],
        ),
        (
            f"10-244-1-9.web.{SVC} SRV",
            OK,
            [f"10-244-1-9.web.{SVC} 5 SRV 0 50 {port} 10-244-1-9.web.{SVC}" for port in (8080, 8443)],
            [f"10-244-1-9.web.{SVC} 5 A 10.244.1.9"],
        ),
        (f"10-244-1-10.web.{SVC} SRV", NX, [], None),
        # PTR records of endpoints behind a cluster IP (CoreDNS since 1.12.1)
        ("8.1.244.10.in-addr.arpa. PTR", OK, [f"8.1.244.10.in-addr.arpa. 5 PTR web-0.web.{SVC}"], []),
        ("9.1.244.10.in-addr.arpa. PTR", OK, [f"9.1.244.10.in-addr.arpa. 5 PTR 10-244-1-9.web.{SVC}"], []),
        ("9.1.244.10.in-addr.arpa. A", OK, [], None),
        ("11.1.244.10.in-addr.arpa. PTR", OK, [f"11.1.244.10.in-addr.arpa. 5 PTR db-0.db.{SVC}"], []),
    ],
)
def test_extensions_of_coredns_are_answered(question, rcode, expected, additional):
    zone = build_zone(read_objects(MORE))
    size = len(zone)
    name, kind = question.split()
    reply = ask(ready(zone), name, kind)
    assert (dnslib.RCODE[reply.header.rcode], lines(reply.rr)) == (rcode, expected)
    assert [line.split()[2] for line in lines(reply.auth)] == ([] if expected else ["SOA"])
    if additional is not None:
        assert lines(reply.ar) == additional
    assert len(zone) == size, "what nobody needs costs no memory"


@pytest.mark.parametrize("mode", ["insecure", "verified"])
def test_names_of_pods_have_srv_records(mode):
    """CoreDNS: the port is 0, because no port belongs to a pod's name."""
    text = """
kind: Pod
metadata: {name: p}
status: {phase: Running, podIP: 10.244.1.2, podIPs: [{ip: 10.244.1.2}]}
---
{kind: Namespace, metadata: {name: default}}
"""
    zone = build_zone(read_objects(text), ZoneSettings(pods=mode))
    name = f"10-244-1-2.default.pod.{END}"
    reply = ask(ready(zone), name, "SRV")
    assert lines(reply.rr) == [f"{name} 5 SRV 0 100 0 {name}"]
    assert lines(reply.ar) == [f"{name} 5 A 10.244.1.2"]
    for other in (f"default.pod.{END}", f"pod.{END}"):
        assert ask(ready(zone), other, "SRV").rr == []


def test_the_name_server_has_addresses_of_both_families(zone):
    both = build_zone([])
    both.set_name_server(("10.96.0.10", "fd00::a"))
    assert lines(ask(ready(both), f"ns.dns.{END}", "AAAA").rr) == [f"ns.dns.{END} 5 AAAA fd00::a"]
    assert lines(ask(ready(both), END, "NS").ar) == [f"ns.dns.{END} 5 A 10.96.0.10", f"ns.dns.{END} 5 AAAA fd00::a"]


SHARED = """
kind: Service
metadata: {name: NAME}
spec: {clusterIP: CLUSTERIP}
---
kind: EndpointSlice
metadata: {name: NAME, labels: {kubernetes.io/service-name: NAME}}
endpoints: [{addresses: [10.244.0.1], hostname: p}, {addresses: [10.96.0.1]}]
"""


def test_an_address_has_the_names_of_all_its_services():
    def service(name: str, cluster_ip: str) -> str:
        return SHARED.replace("NAME", name).replace("CLUSTERIP", cluster_ip)

    zone = build_zone(
        read_objects(f"{service('a', 'None')}---{service('b', '10.96.0.1')}---{service('c', '10.96.0.2')}")
    )

    def names(address: str) -> list[str]:
        return [str(rr.rdata) for rr in ask(ready(zone), f"{address}.in-addr.arpa", "PTR").rr]

    assert names("1.0.244.10") == [f"p.{name}.{SVC}" for name in "abc"]
    assert names("1.0.96.10") == [f"b.{SVC}"], "a cluster IP is nothing else"
    zone.find_reverse = lambda address: ["10-244-0-1.x.y", "p.x.y"]
    zone.forget_reverse(["10.244.0.1"])
    assert names("1.0.244.10") == [f"p.a.{SVC}", "p.x.y.", "10-244-0-1.x.y."], "host names first"
    zone.find_reverse = lambda address: ()
    zone.forget_reverse(["10.244.0.1", "10.9.9.9"])
    assert names("1.0.244.10") == [f"p.a.{SVC}"]


@pytest.mark.parametrize(
    ("zones", "name", "apex"),
    [
        (("in-addr.arpa", "ip6.arpa"), "9.0.96.10.in-addr.arpa", "in-addr.arpa"),
        (("in-addr.arpa", "ip6.arpa"), f"6.{'0.' * 27}0.0.d.f.ip6.arpa", "ip6.arpa"),
        (("10.in-addr.arpa", "96.10.in-addr.arpa"), "9.0.96.10.in-addr.arpa", "96.10.in-addr.arpa"),
        (("10.in-addr.arpa",), "71.2.244.10.in-addr.arpa", "10.in-addr.arpa"),
        (("192.in-addr.arpa",), "9.0.96.10.in-addr.arpa", "in-addr.arpa"),
    ],
)
def test_negative_answers_for_addresses_have_the_soa_of_their_zone(zones, name, apex):
    zone = build_zone(read_objects(CLUSTER), ZoneSettings(reverse_zones=zones))
    reply = ask(ready(zone), name, "TXT")
    assert (reply.header.rcode, reply.header.aa, reply.rr) == (0, 1, [])
    assert lines(reply.auth) == [f"{apex}. 0 SOA ns.dns.{apex}. hostmaster.{apex}. 7 7200 1800 86400 0"]


def test_extra_records_are_complete(monkeypatch):
    zone = build_zone(read_objects(MORE))
    asked: list[ObjectKey] = []
    answers = {"web-0.web.default.svc.cluster.local": {"A": ("10.244.1.8",)}}

    def find_extra(key: ObjectKey) -> dict[str, Any]:
        asked.append(key)
        return dict(answers)

    zone.find_extra = find_extra
    responder = ready(zone)
    web, db = ObjectKey("default", "web"), ObjectKey("default", "db")

    def is_there() -> bool:
        return bool(ask(responder, f"web-0.web.{SVC}").rr)

    assert (is_there(), is_there()) == (True, True)
    assert asked == [web]
    answers.clear()
    zone.forget_extra(web)
    assert not is_there()
    zone.set_service(web, None)
    assert not is_there()
    assert asked == [web, web], "a Service that is gone has nothing more"
    monkeypatch.setattr("bridgehead.dns.zone.finished_answers._MAX_EXTRA", 1)
    for name in ("db", "portless", "db"):
        ask(responder, f"{name}.{SVC}", "SRV")
    assert asked[2:] == [db, ObjectKey("default", "portless"), db], "of few is remembered what they had"


def test_invalid_ports_are_omitted():
    objects = read_objects(
        """
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.9, ports: [{port: 70000}, {port: 80}]}
---
kind: Service
metadata: {name: db}
spec: {clusterIP: None}
---
kind: EndpointSlice
metadata: {name: db-a, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{port: 70000}, {name: a, port: -1}, {name: b, port: 81}]
endpoints: [{addresses: [10.244.1.11]}]
"""
    )
    responder = ready(build_zone(objects))
    for name, expected in (("web", f"100 80 web.{SVC}"), ("db", f"100 81 10-244-1-11.db.{SVC}")):
        assert lines(ask(responder, f"{name}.{SVC}", "SRV").rr) == [f"{name}.{SVC} 5 SRV 0 {expected}"]


def test_endpoints_can_be_named_after_their_pods():
    """The option is CoreDNS' endpoint_pod_names."""
    service, slice_ = read_objects(
        """
kind: Service
metadata: {name: db}
spec: {clusterIP: None}
---
kind: EndpointSlice
metadata: {name: db-a, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
endpoints:
- {addresses: [10.244.1.8], hostname: db-0, targetRef: {kind: Pod, name: of-a-set}}
- {addresses: [10.244.1.9], targetRef: {kind: Pod, name: web-x7f}}
- {addresses: [10.244.1.10], targetRef: {kind: Pod, name: web.1}}
- {addresses: [10.244.1.11]}
"""
    )
    names = service_records(service, [slice_], "cluster.local", by_pod=True).names
    assert [name.removesuffix("db.default.svc.cluster.local") for name in names] == [
        "", "db-0.", "web-x7f.", "10-244-1-10.", "10-244-1-11."
    ]  # fmt: skip


def test_domain_and_ttl_are_configurable():
    responder = ready(build_zone(read_objects(CLUSTER), ZoneSettings(domain="k8s.example.org", ttl=30, negative_ttl=3)))
    assert lines(ask(responder, "web.default.svc.k8s.example.org").rr) == [
        "web.default.svc.k8s.example.org. 30 A 10.96.0.9"
    ]
    (soa,) = lines(ask(responder, "nix.k8s.example.org").auth)
    assert soa.startswith("k8s.example.org. 3 SOA")
    assert soa.endswith(" 3")
