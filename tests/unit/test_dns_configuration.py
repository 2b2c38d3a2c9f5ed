"""Corefiles, resolv.conf and addresses: what they say, and what is refused, in which words."""

from __future__ import annotations

import pytest

from bridgehead.dns.config import DnsConfig, check, parse_address
from bridgehead.dns.corefile import read_corefile
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.upstream import Server, parse_resolv_conf, parse_search, parse_server
from bridgehead.dns.zone import ZoneSettings

KUBEADM = """
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
"""


def test_kubeadms_corefile():
    config, remarks = read_corefile(KUBEADM, DnsConfig())
    assert config == DnsConfig(zone=ZoneSettings("cluster.local", "insecure", 30), cache_seconds=30)
    assert remarks == ("line 22: 'reload' has no effect here",)


def test_more_of_it():
    config, remarks = read_corefile(
        """
# a comment
corp.example:1053 example.org:1053 {
    forward . 10.0.0.1 10.0.0.2:5353
    cache 5
}
.:1053 {
    bind 127.0.0.1 ::1
    kubernetes k8s.example. {
        pods verified
    }
    autopath @kubernetes
    forward . 1.1.1.1 dns://[2606::1]:54 { # here, too
        policy sequential
    }
    forward lan. 192.168.0.1
    cache {
        success 500 60
        serve_stale 2h immediate
    }
    log
}
""",
        DnsConfig(),
    )
    assert config.zone == ZoneSettings("k8s.example", "verified")
    assert config.listen == (("127.0.0.1", 1053), ("::1", 1053))
    assert config.upstreams == (Server("1.1.1.1"), Server("2606::1", 54))
    corp = (Server("10.0.0.1"), Server("10.0.0.2", 5353))
    assert config.stub_domains == (("corp.example", corp), ("example.org", corp), ("lan", (Server("192.168.0.1"),)))
    assert (config.autopath, config.cache_entries, config.serve_stale_seconds) == (True, 500, 7200)
    assert (config.health, config.ready, config.metrics) == (None, None, None)
    assert config.log_queries
    assert len(remarks) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no server block has a `kubernetes`"),
        (".:53 {\n whoami\n}", "not supported: whoami (line 2)"),
        (
            ".:53 {\n kubernetes x {\n  namespaces a\n }\n hosts\n template IN A\n}",
            "not supported: namespaces (line 3), hosts (line 5), template (line 6)",
        ),
        (".:53 {\n kubernetes x\n", "line 1: a brace is opened and not closed"),
        ("}", "line 1: a brace is closed"),
        (".:53 { kubernetes x }", "line 1: a brace in the middle"),
        ("{\n}", "line 1: a block without a name"),
        (".:53 {\n kubernetes a b\n}", "line 2: kubernetes with 2 domains"),
        (".:53 {\n kubernetes x {\n  ttl soon\n }\n}", "line 3: ttl takes a number"),
        (".:53 {\n kubernetes x\n forward . example.com\n}", "'example.com' is not an address"),
        (".:53 {\n kubernetes x\n forward .\n}", "line 3: forward FROM TO"),
        (".:53 {\n kubernetes x\n cache {\n  serve_stale soon\n }\n}", "'soon' is not a time"),
        (".:53 {\n kubernetes x\n}\n.:54 {\n kubernetes y\n}", "line 4: a second `kubernetes`"),
        ("tls://.:853 {\n kubernetes x\n}", "'tls' is not supported"),
        (".:53 {\n kubernetes x\n autopath /etc/resolv.conf\n}", "autopath only by @kubernetes"),
    ],
)
def test_what_a_corefile_may_not_say(text, words):
    with pytest.raises(ConfigInvalid) as caught:
        read_corefile(text, DnsConfig())
    assert words in str(caught.value)


def test_resolv_conf():
    text = """
# nameserver 9.9.9.9
search a.example b.example.
nameserver 10.0.0.1   # the first
nameserver fd00::1
nameserver fe80::1%eth0
nameserver nonsense
options ndots:5
search lan .
"""
    assert parse_resolv_conf(text) == [Server("10.0.0.1"), Server("fd00::1")]
    assert parse_search(text) == ["lan"]
    assert parse_search("") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.1.1.1", Server("1.1.1.1", 53)),
        ("1.1.1.1:5353", Server("1.1.1.1", 5353)),
        ("fd00::1", Server("fd00::1", 53)),
        ("[fd00::1]:54", Server("fd00::1", 54)),
        ("1.1.1.1:0", None),
        ("1.1.1.1:70000", None),
        ("", None),
        ("one.one.one.one", None),
    ],
)
def test_an_upstream(text, expected):
    if expected is None:
        with pytest.raises(ConfigInvalid):
            parse_server(text)
    else:
        assert parse_server(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":53", ("", 53)),
        ("0.0.0.0:5353", ("0.0.0.0", 5353)),
        ("10.0.0.1", ("10.0.0.1", 8080)),
        ("[::]:53", ("::", 53)),
        ("[::]", ("::", 8080)),
        ("::", ("::", 8080)),
    ],
)
def test_an_address(text, expected):
    assert parse_address("x", text, 8080) == expected


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (DnsConfig(zone=ZoneSettings(domain="")), "'' is not a domain name"),
        (DnsConfig(zone=ZoneSettings(ttl=-1)), "ttl -1"),
        (DnsConfig(processes=0), "processes"),
        (DnsConfig(stub_domains=(("x.cluster.local", ()),)), "in the cluster's own domain"),
        (DnsConfig(stub_domains=(("cluster.local", ()),)), "in the cluster's own domain"),
    ],
)
def test_what_cannot_work(config, words):
    with pytest.raises(ConfigInvalid, match=words):
        check(config)
