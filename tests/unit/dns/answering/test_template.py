"""`template` of a Corefile: what it answers, whose names it means, and what is refused."""

from __future__ import annotations

import dnslib
import pytest

from bridgehead.dns.answering import Responder, Templates, Unresolved
from bridgehead.dns.config import DnsConfig
from bridgehead.dns.corefile import Sources, read_corefile
from bridgehead.dns.errors import ConfigInvalid
from tests.unit.dns.world import ask, build_zone, lines, packet, read_objects, ready

WEB = "web.default.svc.cluster.local"
OBJECTS = """
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9, "fd00::9"]}
---
kind: Service
metadata: {name: ext}
spec: {type: ExternalName, externalName: a.wild.example}
"""
COREFILE = r"""
. {
    kubernetes cluster.local
    template IN A wild.example {
        answer "{{ .Name }} 30 IN A 192.0.2.1"
    }
    template IN ANY ip.example {
        match "^(?P<a>\d+)-(?P<b>\d+)\.ip\.example\.$" "^second\.(ip)\.example\.$"
        answer "{{.Name}} A 10.0.0.7"
        answer "{{ .Name }} 10 TXT \"{{ .Type }} of {{ index .Match 0 }} in {{ .Zone }}\""
    }
    template ANY A numbers.example {
        match "^(?P<a>[0-9]*)-(?P<b>[0-9]*)[.]numbers[.]example[.]$"
        answer "{{ .Name }} 60 IN A 10.0.{{ .Group.a }}.{{ index .Group \"b\" }}"
        fallthrough
    }
    template ANY ANY internal.cloudapp.net {
        match "^(?:[^.]+\.){4,}internal\.cloudapp\.net\.$"
        rcode NXDOMAIN
        fallthrough
    }
    template IN AAAA . {
        match "\.svc\.cluster\.local\.$"
        rcode NOERROR
        fallthrough
    }
    template IN ANY aliases.example {
        answer "{{ .Name }} 20 IN CNAME {{ .Name }}test"
    }
    template IN PTR 2.0.192.in-addr.arpa {
        match "^(\d+)\.2"
        answer "{{ .Name }} IN PTR host-{{ index .Match 1 }}.example."
    }
}
"""


def _responder(corefile: str) -> Responder:
    config = read_corefile(corefile, DnsConfig(), Sources()).config
    return ready(build_zone(read_objects(OBJECTS)), templates=Templates(config.templates, ra=True))


@pytest.mark.parametrize(
    ("name", "kind", "rcode", "expected"),
    [
        ("a.wild.example", "A", "NOERROR", ["a.wild.example. 30 A 192.0.2.1"]),
        ("wild.example", "A", "NOERROR", ["wild.example. 30 A 192.0.2.1"]),
        ("1-2.ip.example", "A", "NOERROR", ["1-2.ip.example. 3600 A 10.0.0.7"]),
        (
            "second.ip.example",
            "TXT",
            "NOERROR",
            ['second.ip.example. 10 TXT "TXT of second.ip.example. in ip.example."'],
        ),
        ("1-2.ip.example", "AAAA", "NOERROR", []),
        ("other.ip.example", "A", "SERVFAIL", []),
        ("3-4.numbers.example", "A", "NOERROR", ["3-4.numbers.example. 60 A 10.0.3.4"]),
        ("300-4.numbers.example", "A", "SERVFAIL", []),
        ("a.b.c.d.internal.cloudapp.net", "MX", "NXDOMAIN", []),
        (WEB, "A", "NOERROR", [f"{WEB}. 5 A 10.96.0.9"]),
        (WEB, "AAAA", "NOERROR", []),
        ("a.aliases.example", "MX", "NOERROR", ["a.aliases.example. 20 CNAME a.aliases.example.test."]),
        ("a.aliases.example", "CNAME", "NOERROR", ["a.aliases.example. 20 CNAME a.aliases.example.test."]),
        ("7.2.0.192.in-addr.arpa", "PTR", "NOERROR", ["7.2.0.192.in-addr.arpa. 3600 PTR host-7.example."]),
    ],
)
def test_templates_answer_matching_names(name: str, kind: str, rcode: str, expected: list[str]) -> None:
    reply = ask(_responder(COREFILE), name, kind)
    assert (dnslib.RCODE[reply.header.rcode], lines(reply.rr)) == (rcode, expected)


@pytest.mark.parametrize(
    ("name", "kind"), [("a.wild.example", "AAAA"), ("x.numbers.example", "A"), ("a.internal.cloudapp.net", "A")]
)
def test_other_names_are_passed_to_the_resolver(name: str, kind: str) -> None:
    assert isinstance(_responder(COREFILE).respond_untrusted(packet(name, kind)), Unresolved)


def test_templates_outside_the_cluster_block_match_no_cluster_name() -> None:
    responder = _responder(
        "cluster.local {\n kubernetes\n}\n. {\n template ANY AAAA {\n rcode NOERROR\n }\n forward . 10.0.0.1\n}"
    )
    assert lines(ask(responder, WEB, "AAAA").rr) == [f"{WEB}. 5 AAAA fd00::9"]
    assert lines(ask(responder, "www.example.com", "AAAA").rr) == []
    assert isinstance(responder.respond_untrusted(packet("www.example.com")), Unresolved)


def test_templates_that_can_match_cluster_names_are_recognized() -> None:
    def touches(zone: str) -> bool:
        block = (
            f'. {{\n kubernetes cluster.local\n template IN A {zone} {{\n answer "{{{{ .Name }}}} A 10.0.0.1"\n }}\n}}'
        )
        return Templates(read_corefile(block, DnsConfig(), Sources()).config.templates, ra=True).touches(
            "cluster.local"
        )

    assert [touches(zone) for zone in ("", "local", "cluster.local", "a.svc.cluster.local")] == [True] * 4
    assert [touches(zone) for zone in ("example", "xcluster.local", "cluster")] == [False] * 3


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("template", "line 3: usage: template IN|ANY TYPE"),
        ("template CH A", "line 3: usage: template IN|ANY TYPE"),
        ("template IN NONSENSE", "line 3: usage: template IN|ANY TYPE"),
        ("template IN A {\n}", "neither an answer nor an rcode"),
        ("template IN A {\n rcode WELL\n}", "line 4: rcode 'WELL': one of NOERROR, FORMERR"),
        ("template IN A {\n authority a\n rcode NXDOMAIN\n}", "not supported: authority (line 4)"),
        ("template IN A {\n match (\n rcode NXDOMAIN\n}", "template match '('"),
        ('template IN A {\n answer "a.b. 60 IN A 10.0.0.1"\n}', 'line 4: usage: answer "{{ .Name }} [TTL]'),
        ('template IN A {\n answer "{{ .Name }} MX 10 a.b"\n}', 'line 4: usage: answer "{{ .Name }} [TTL]'),
        ('template IN A {\n answer "{{ .Name }} A {{ parseInt 1 }}"\n}', "{{ parseInt 1 }}, which is not known"),
        ('template IN A {\n match "(a)"\n answer "{{ .Name }} A {{ .Group.b }}"\n}', "match '(a)' has no group b"),
        ('template IN A {\n match "(a)"\n answer "{{ .Name }} A {{ index .Match 2 }}"\n}', "has no group 2"),
    ],
)
def test_invalid_templates_are_refused(template: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        read_corefile(f". {{\n kubernetes cluster.local\n {template}\n}}", DnsConfig(), Sources())
    assert message in str(caught.value)
