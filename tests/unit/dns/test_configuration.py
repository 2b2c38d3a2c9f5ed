"""Corefiles, resolv.conf and addresses: what is read, and the errors of what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest

from bridgehead.dns.config import (
    AnswerRule,
    CacheSettings,
    DnsConfig,
    ForwardSettings,
    Hosts,
    Prefetch,
    RewriteRule,
    Server,
    Tls,
    TtlLimits,
    ZoneSettings,
    check,
    parse_address,
    parse_node_local,
)
from bridgehead.dns.corefile import Sources, directives, read_corefile
from bridgehead.dns.corefile.directives import (
    DIRECTIVES,
    cache,
    forward,
    health,
    hosts,
    kubernetes,
    log,
    template,
    transfer,
)
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages.domain_names import as_zones
from bridgehead.dns.upstreams import parse_resolv_conf, parse_search, parse_server

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


def caching(longest=3600, longest_negative=None, **settings):
    """The settings of a `cache` directive with these TTLs. CoreDNS' shortest TTL is 5 s."""
    longest_negative = longest_negative or min(longest, 1800)
    limits = {"ttl": TtlLimits(5, longest), "negative_ttl": TtlLimits(5, longest_negative)}
    return CacheSettings(**{**limits, "servfail_seconds": 5.0, **settings})


def test_the_corefile_of_kubeadm_is_understood():
    config, remarks = read_corefile(KUBEADM, DnsConfig(), Sources())
    zone = ZoneSettings("cluster.local", "insecure", 30)
    uncached = (("success", "cluster.local"), ("denial", "cluster.local"))
    assert config == DnsConfig(zone=zone, cache=caching(30, uncached=uncached), lameduck_seconds=5)
    assert remarks == ()


_USUAL = """
    errors
    health {
        lameduck 5s
      }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
    }
    prometheus :9153
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
    loadbalance
"""
DISTRIBUTIONS = {
    "EKS": f".:53 {{ {_USUAL}}}",
    "k3s": f"""
.:53 {{ {_USUAL}
    hosts /etc/coredns/NodeHosts {{
      ttl 60
      reload 15s
      fallthrough
    }}
    import /etc/coredns/custom/*.override
}}
import /etc/coredns/custom/*.server
""",
    "RKE2": f".:53 {{ {_USUAL}\n}}".replace("kubernetes", "kubernetes cluster.local"),
    "minikube": f""".:53 {{ {_USUAL}
    log
    hosts {{
       192.168.49.1 host.minikube.internal
       fallthrough
    }}
}}""",
    "AKS": rf"""
.:53 {{ {_USUAL}
    import custom/*.override
    template ANY ANY internal.cloudapp.net {{
      match "^(?:[^.]+\.){{4,}}internal\.cloudapp\.net\.$"
      rcode NXDOMAIN
      fallthrough
    }}
    template ANY ANY reddog.microsoft.com {{
      rcode NXDOMAIN
    }}
}}
import custom/*.server
""",
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_corefiles_of_distributions_are_understood(distribution):
    around = Sources("/etc/coredns", read=lambda path: "", find=lambda pattern: [], variables={})
    config = read_corefile(DISTRIBUTIONS[distribution], DnsConfig(), around).config
    check(config)
    assert (config.zone, config.upstreams) == (ZoneSettings("cluster.local", "insecure"), None)
    assert (config.cache.ttl.longest, config.lameduck_seconds, config.metrics) == (30, 5, ("", 9153))


def test_further_directives_are_understood():
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
        serve_stale 1h60m immediate
    }
    log
}
""",
        DnsConfig(),
        Sources(),
    )
    assert config.zone == ZoneSettings("k8s.example", "verified")
    assert config.listen == (("127.0.0.1", 1053), ("::1", 1053))
    assert config.upstreams == (Server("1.1.1.1"), Server("2606::1", 54))
    corp = (Server("10.0.0.1"), Server("10.0.0.2", 5353))
    assert config.stub_domains == (("corp.example", corp), ("example.org", corp), ("lan", (Server("192.168.0.1"),)))
    assert config.autopath
    assert config.cache == caching(60, 1800, capacity=500, stale_seconds=7200, stale_mode="immediate")
    assert config.block_caches == (("corp.example", caching(5)), ("example.org", caching(5)))
    assert (config.health, config.ready, config.metrics) == (None, None, None)
    assert config.forwarding == (("", ForwardSettings("sequential")),)
    assert config.log_queries
    assert remarks == ()


@pytest.mark.parametrize(
    ("options", "pods", "falls_through"),
    [
        ("", "disabled", ()),  # as with CoreDNS
        ("pods insecure", "insecure", ()),
        ("fallthrough in-addr.arpa ip6.arpa", "disabled", ()),
        ("fallthrough", "disabled", ("x",)),
        ("fallthrough X. in-addr.arpa", "disabled", ("x",)),
        ("fallthrough a.x y", "disabled", ("a.x",)),
    ],
)
def test_options_of_the_kubernetes_directive(options, pods, falls_through):
    config = read_corefile(f".:53 {{\n kubernetes x {{\n {options}\n }}\n}}", DnsConfig(), Sources()).config
    assert (config.zone, config.falls_through) == (ZoneSettings("x", pods), falls_through)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("bind 127.0.0.1\n bind ::1 127.0.0.1", {"listen": (("127.0.0.1", 53), ("::1", 53))}),
        ("cancel", {}),
        ("cancel 1500ms", {"forward_seconds": 1.5}),
        ("minimal", {"is_minimal": True}),
        ("any", {"has_minimal_any": True}),
        ("errors stdout\n loop\n loadbalance round_robin\n reload 10s 5s", {}),
        ("log . {common} {\n class error\n }", {"log_queries": True, "log_classes": ("error",)}),
        ("transfer x {\n to 10.0.0.1\n }", {"transfer_to": (ip_network("10.0.0.1/32"),)}),
    ],
)
def test_directives_change_the_settings(lines, expected):
    config, remarks = read_corefile(f". {{\n kubernetes x\n {lines}\n}}", DnsConfig(), Sources())
    assert config == replace(
        DnsConfig(zone=ZoneSettings("x", "disabled"), upstreams=(), health=None, ready=None, metrics=None), **expected
    )
    assert remarks == ()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        # Options that would have no effect
        ("errors {\n consolidate 5m .*\n }", "not supported: consolidate of errors (line 4)"),
        ("ready {\n monitor continuously\n }", "not supported: monitor of ready (line 4)"),
        (
            "prometheus {\n runtime_metrics\n tls f\n }",
            "runtime_metrics of prometheus (line 4), tls of prometheus",
        ),
        ("bind 127.0.0.1 {\n except ::1\n }", "not supported: except of bind (line 4)"),
        ("loadbalance weighted f", "not supported: loadbalance weighted (line 3)"),
        ("loadbalance {\n limit_answers 5\n }", "not supported: limit_answers of loadbalance (line 4)"),
        ("reload off", "not supported: reload off (line 3: changes of the file are always noticed)"),
        ("hosts {\n reload 0\n fallthrough\n }", "not supported: reload 0 in hosts (line 4: changes"),
        ("transfer y {\n to *\n }", "not supported: transfer y (line 3: only the domain of `kubernetes`"),
        # Directives for the insides of CoreDNS
        ("debug", "not supported: debug (line 3: start the server with -v 1)"),
        ("multisocket 4", "not supported: multisocket (line 3: start the server with --processes)"),
        ("pprof", "not supported: pprof (line 3: "),
        ("timeouts {\n read 1s\n }", "not supported: timeouts (line 3)"),
        # Wrong arguments
        ("loop 5", "line 3: usage: loop"),
        ("any 5", "line 3: usage: any"),
        ("minimal yes", "line 3: usage: minimal"),
        ("errors file", "line 3: usage: errors"),
        ("loadbalance random", "line 3: usage: loadbalance"),
        ("reload 1 2 3", "line 3: usage: reload"),
        ("reload soon", "line 3: "),
        ("cancel 0s", "line 3: cancel: the time has to be longer than 0"),
        ("cancel 1s 2s", "line 3: usage: cancel"),
        ("bind", "line 3: usage: bind"),
        ("bind eth0", "line 3: bind 'eth0': only addresses, not names of interfaces or hosts"),
    ],
)
def test_directives_without_effect_are_refused(line, problem):
    with pytest.raises(ConfigInvalid, match=re.escape(problem)):
        read_corefile(f". {{\n kubernetes x\n {line}\n}}", DnsConfig(), Sources())


@pytest.mark.parametrize("option", ["upstream", "resyncperiod 5m", "startup_timeout 5s", "apiserver_qps 1", "labels a"])
def test_options_of_kubernetes_without_effect_are_refused(option):
    with pytest.raises(ConfigInvalid, match=rf"not supported: {option.split()[0]} \(line 3"):
        read_corefile(f". {{\n kubernetes x {{\n {option}\n }}\n}}", DnsConfig(), Sources())


def test_namespaces_and_endpoint_pod_names():
    config = read_corefile(
        "k8s.example in-addr.arpa {\n kubernetes {\n namespaces a b\n endpoint_pod_names\n }\n}", DnsConfig(), Sources()
    ).config
    assert config.zone == ZoneSettings(
        "k8s.example",
        "disabled",
        namespaces=("a", "b"),
        endpoint_pod_names=True,
        reverse_zones=("in-addr.arpa",),
    )


def test_a_repeated_zone_counts_once():
    """Charts of RKE2 repeat the zone."""
    config = read_corefile(
        ". {\n kubernetes cluster.local cluster.local in-addr.arpa\n}", DnsConfig(), Sources()
    ).config
    assert config.zone.domain == "cluster.local"


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        ("", CacheSettings()),
        ("cache", caching()),
        ("cache 20", caching(20)),
        ("cache 20 example.org. A.b", caching(20, zones=("example.org", "a.b"))),
        ("cache example.org", caching(zones=("example.org",))),
        (
            "cache 30 {\n success 9984 20 5\n denial 5000 4 0\n prefetch 10 30s 20%\n servfail 0\n keepttl\n }",
            caching(
                20,
                capacity=9984,
                negative_capacity=5000,
                negative_ttl=TtlLimits(0, 4),
                prefetch=Prefetch(10, 30.0, 20),
                servfail_seconds=0.0,
                keeps_ttl=True,
            ),
        ),
        ("cache {\n success 1 20 3\n prefetch 2\n}", caching(ttl=TtlLimits(3, 20), capacity=1, prefetch=Prefetch(2))),
        ("cache {\n serve_stale\n }", caching(stale_seconds=3600, stale_mode="immediate")),
        ("cache {\n serve_stale 1m verify\n }", caching(stale_seconds=60, stale_mode="verify")),
        ("cache {\n serve_stale 1m verify 1.5s\n }", caching(stale_seconds=60, verify_seconds=1.5)),
        (
            "cache {\n disable denial\n disable success example.org\n }",
            caching(uncached=(("denial", ""), ("success", "example.org"))),
        ),
    ],
)
def test_options_of_the_cache_directive(cache, expected):
    config = read_corefile(
        f". {{\n kubernetes cluster.local {{\n pods insecure\n }}\n forward . /etc/resolv.conf\n {cache}\n}}",
        DnsConfig(),
        Sources(),
    ).config
    assert config == DnsConfig(health=None, ready=None, metrics=None, cache=expected)


@pytest.mark.parametrize(
    ("cache", "problem"),
    [
        ("cache 0", "line 3: cache TTL can not be zero or negative: 0"),
        ("cache -5", "line 3: cache TTL can not be zero or negative: -5"),
        ("cache 2147483648", "line 3: cache: 2147483648 is larger than 2147483647"),
        (f"cache {'9' * 5000}", f"line 3: cache: {'9' * 20} is larger than 2147483647"),
        ("cache {\n success 1 9 2147483648\n}", "line 4: success: 2147483648 is larger than 2147483647"),
        ("cache {\n denial 99999999999\n}", "line 4: denial: 99999999999 is larger than 2147483647"),
        ("cache {\n prefetch 99999999999\n}", "line 4: prefetch: 99999999999 is larger than 2147483647"),
        ("cache {\n success 1 0\n}", "line 4: cache TTL can not be zero or negative: 0"),
        ("cache {\n denial 1 0\n}", "line 4: cache TTL can not be zero or negative: 0"),
        ("cache {\n success 1 2 3 4\n}", "line 4: usage: success CAPACITY"),
        (
            "cache {\n serve_stale 1h immediat\n}",
            "line 4: serve_stale 'immediat': one of immediate, verify; did you mean",
        ),
        ("cache {\n serve_stale later\n}", "line 4: "),
        ("cache {\n serve_stale 1h immediate 1s\n}", "line 4: usage: serve_stale"),
        ("cache {\n serve_stale 1h verify 1s 2s\n}", "line 4: usage: serve_stale"),
        ("cache {\n servfail 6m\n}", "line 4: caching SERVFAIL responses over 5 minutes is not permitted"),
        ("cache {\n prefetch\n}", "line 4: usage: prefetch"),
        ("cache {\n prefetch 1 1m 9%\n}", "line 4: prefetch '9%': 10% to 90%"),
        ("cache {\n prefetch 1 1m 20\n}", "line 4: prefetch '20': 10% to 90%"),
        ("cache {\n keepttl 5\n}", "line 4: usage: keepttl"),
    ],
)
def test_invalid_caches_are_refused(cache, problem):
    with pytest.raises(ConfigInvalid, match=re.escape(problem)):
        read_corefile(f".:53 {{\n kubernetes x\n {cache}\n}}", DnsConfig(), Sources())


def test_each_server_block_has_its_own_cache():
    config, remarks = read_corefile(
        "cluster.local {\n kubernetes {\n ttl 30\n }\n cache 7 {\n serve_stale\n }\n}\n"
        "a {\n forward . 1.1.1.1\n cache 8\n}\nb {\n forward . 1.1.1.1\n}\n. {\n cache 9\n}",
        DnsConfig(),
        Sources(),
    )
    assert config.cache == caching(9)
    assert config.block_caches == (("a", caching(8)), ("b", CacheSettings()))
    assert (config.zone.ttl, remarks) == (7, ())


def test_the_cache_limits_ttls_of_hosts_and_templates_in_its_block():
    """CoreDNS does the same: its `cache` comes before both."""
    lines = "hosts /dev/null {\n 10.0.0.1 a.example\n ttl 60\n fallthrough\n }\n"
    template = 'template IN A example {\n answer "{{ .Name }} 90 IN A 10.0.0.2"\n fallthrough\n }\n'
    text = f"x . {{\n kubernetes x\n cache 20\n {lines} {template}}}\ncorp {{\n {lines} {template}}}"
    config = read_corefile(text, DnsConfig(), Sources()).config
    assert [hosts.ttl for hosts in config.hosts] == [20, 60]
    assert [record.ttl for found in config.templates for record in found.records] == [20, 90]
    elsewhere = read_corefile(text.replace("cache 20", "cache 20 example.org"), DnsConfig(), Sources()).config
    assert [hosts.ttl for hosts in elsewhere.hosts] == [60, 60]


@pytest.mark.parametrize(
    ("ttl", "cache", "seen"),
    [
        (30, "", 30),
        (0, "", 0),
        (30, "cache 10", 10),
        (0, "cache", 5),
        (10, "cache {\n success 100 60 20\n }", 20),
        (30, "cache 10 example.org", 30),
        (30, "cache 10 {\n disable success cluster.local\n }", 10),
    ],
)
def test_the_cache_limits_the_ttl_of_cluster_names(ttl, cache, seen):
    """CoreDNS does the same: its `cache` sees the answers of `kubernetes`, too; also those that it does not keep."""
    text = f". {{\n kubernetes cluster.local {{\n ttl {ttl}\n }}\n {cache}\n}}"
    assert read_corefile(text, DnsConfig(), Sources()).config.zone.ttl == seen


def test_forward_has_upstreams_and_exceptions():
    config = read_corefile(
        """
. {
    kubernetes cluster.local
    forward corp.example /etc/corp.conf 10.0.0.3 {
        policy sequential
    }
    forward . /etc/resolv.conf {
        except lan. corp.example db.corp.example svc.cluster.local
        prefer_udp
        max_concurrent 1000
        max_idle_conns 10
        failover SERVFAIL refused
        policy round_robin
    }
    bufsize 4096
}
""",
        DnsConfig(),
        Sources(read={"/etc/corp.conf": "nameserver 10.0.0.1\nnameserver 10.0.0.2\n"}.__getitem__),
    ).config
    corp = tuple(Server(f"10.0.0.{number}") for number in (1, 2, 3))
    assert (config.upstreams, config.stub_domains) == (None, (("corp.example", corp),))
    assert config.denied == (("lan", 2),), "the others have somebody to ask, or an answer"
    assert dict(config.forwarding) == {
        "corp.example": ForwardSettings("sequential"),
        "": ForwardSettings("round_robin", failover=frozenset((2, 5)), most_idle=10),
    }
    assert config.udp_size == 4096
    check(config)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("max_fails 3\n health_check 5s", {"max_fails": 3, "health_seconds": 5.0}),
        (
            "health_check 1s no_rec domain Example.org.",
            {"health_seconds": 1.0, "health_rd": False, "health_name": "example.org"},
        ),
        ("health_check 1s domain .", {"health_seconds": 1.0}),
        ("health_check 500ms\n max_fails 1\n prefer_udp\n policy random", {}),
        ("failfast_all_unhealthy_upstreams\n max_connect_attempts 2", {"fails_fast": True, "most_attempts": 2}),
        ("expire 30s\n max_idle_conns 4\n max_fails 0", {"idle_seconds": 30.0, "most_idle": 4, "max_fails": 0}),
        ("failover SERVFAIL\n failover NXDOMAIN", {"failover": frozenset((2, 3))}),
    ],
)
def test_options_of_the_forward_directive(options, expected):
    text = f". {{\n kubernetes x\n forward . 192.0.2.1 {{\n {options}\n }}\n}}"
    reading = read_corefile(text, DnsConfig(), Sources())
    assert dict(reading.config.forwarding) == ({"": ForwardSettings(**expected)} if expected else {})
    assert reading.remarks == ()


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("max_fails many", "line 4: max_fails takes a number"),
        ("max_fails 99999999999", "line 4: max_fails: 99999999999 is larger than 2147483647"),
        ("health_check", "line 4: "),
        ("health_check 0s", "line 4: health_check: the interval has to be longer than 0"),
        ("health_check 1s twice", "line 4: usage: health_check DURATION"),
        ("health_check 1s domain", "line 4: usage: health_check DURATION"),
        ("failover NOERROR", "line 4: usage: failover CODE"),
        ("failover SERVFIAL", "did you mean SERVFAIL?"),
        ("expire", "line 4: usage: expire"),
        ("force_tcp yes", "line 4: usage: force_tcp"),
        ("next NXDOMAIN", "not supported: next (line 4"),
        ("doh_method GET", "not supported: doh_method (line 4"),
    ],
)
def test_invalid_options_of_forward_are_refused(option, problem):
    text = f". {{\n kubernetes x\n forward . 192.0.2.1 {{\n {option}\n }}\n}}"
    with pytest.raises(ConfigInvalid, match=re.escape(problem)):
        read_corefile(text, DnsConfig(), Sources())


def test_ranges_of_addresses_are_reverse_zones():
    config = read_corefile(
        """
x 10.96.0.0/12 {
    kubernetes x 10.96.0.0/15 fd00:10:96::/44 {
        fallthrough 10.96.0.0/16
    }
    cache 10.0.0.0/8
}
10.0.0.0/8 192.168.0.0/24 {
    forward . 192.0.2.1
}
corp.example {
    forward 172.16.0.0/15 192.0.2.2
}
""",
        DnsConfig(),
        Sources(),
    ).config
    assert config.zone.domain == "x"
    assert config.owned_reverse_zones == ("97.10.in-addr.arpa", "9.0.0.0.1.0.0.0.0.d.f.ip6.arpa")
    assert config.cache.zones == ("10.in-addr.arpa",)
    assert [zone for zone, _ in config.stub_domains] == [
        "10.in-addr.arpa", "0.168.192.in-addr.arpa", "16.172.in-addr.arpa", "17.172.in-addr.arpa"
    ]  # fmt: skip
    check(config)


@pytest.mark.parametrize(
    ("text", "zones"),
    [
        ("0.0.0.0/0", ("in-addr.arpa",)),
        ("10.1.2.3/32", ("3.2.1.10.in-addr.arpa",)),
        ("10.1.2.3/31", ("2.2.1.10.in-addr.arpa", "3.2.1.10.in-addr.arpa")),
        ("2001:db8::/32", ("8.b.d.0.1.0.0.2.ip6.arpa",)),
        ("Corp.example.", ("corp.example",)),
        ("0/25.2.0.192.in-addr.arpa", ("0/25.2.0.192.in-addr.arpa",)),  # RFC 2317
    ],
)
def test_zones_of_a_range(text, zones):
    assert as_zones((text,)) == zones


@pytest.mark.parametrize(
    ("zones", "fallthrough", "denied"),
    [
        ("x in-addr.arpa ip6.arpa", "", ("in-addr.arpa", "ip6.arpa")),
        ("x in-addr.arpa ip6.arpa", "fallthrough ip6.arpa", ("in-addr.arpa",)),
        ("x in-addr.arpa ip6.arpa", "fallthrough in-addr.arpa ip6.arpa", ()),
        ("x in-addr.arpa ip6.arpa", "fallthrough", ()),
        ("x", "", ()),
        ("x corp.in-addr.arpa", "", ()),
    ],
)
def test_reverse_zones_without_fallthrough_have_no_upstream(zones, fallthrough, denied):
    text = (
        f".:53 {{\n kubernetes {zones} {{\n {fallthrough}\n }}\n forward . 192.0.2.1\n}}\n"
        "corp.in-addr.arpa:53 {\n forward . 192.0.2.2\n}\n"
    )
    config = read_corefile(text, DnsConfig(), Sources()).config
    assert config.owned_reverse_zones == denied
    check(config)


@pytest.mark.parametrize(
    ("files", "authority", "certificate", "key"),
    [
        ("", "", "", ""),
        ("ca.pem", "/etc/dns/ca.pem", "", ""),
        ("us.pem us.key", "", "/etc/dns/us.pem", "/etc/dns/us.key"),
        ("us.pem us.key /ca.pem", "/ca.pem", "/etc/dns/us.pem", "/etc/dns/us.key"),
    ],
)
def test_upstreams_over_tls_are_configured(files, authority, certificate, key):
    text = (
        f"x {{\n kubernetes x\n forward . tls://9.9.9.9 10.0.0.1 {{\n tls {files}\n tls_servername a.example\n }}\n}}\n"
        "corp.example {\n forward . 10.0.0.2 {\n force_tcp\n }\n}"
    )
    config = read_corefile(text, DnsConfig(), Sources(directory="/etc/dns")).config
    tls = Tls("a.example", authority, certificate, key)
    assert config.upstreams == (Server("9.9.9.9", 853, tls), Server("10.0.0.1"))
    assert [domain for domain, settings in config.forwarding if settings.tcp_only] == ["corp.example"]


@pytest.mark.parametrize(("limits", "most"), [((), 1000), ((10,), 10), ((2000, 10), 2000), ((10, 0), 1 << 30)], ids=str)
def test_max_concurrent_is_read(limits, most):
    stubs = [f"s{at}.example {{\n forward . 1.1.1.1 {{\n max_concurrent {n}\n }}\n}}\n" for at, n in enumerate(limits)]
    assert (
        read_corefile(f". {{\n kubernetes x\n}}\n{''.join(stubs)}", DnsConfig(), Sources()).config.max_concurrent
        == most
    )


def test_health_and_prometheus_may_omit_the_address():
    config = read_corefile(". {\n kubernetes x\n health\n ready\n prometheus\n}", DnsConfig(), Sources()).config
    assert (config.health, config.ready, config.metrics) == (("", 8080), ("", 8181), ("localhost", 9153))


@pytest.mark.parametrize(
    ("log", "classes"),
    [
        ("log", ()),
        ("log . {\n class error\n}", ("error",)),
        ("log {\n class denial error\n class error\n}", ("denial", "error")),
        ("log {\n class all\n}", ()),
    ],
)
def test_log_classes_are_selected(log, classes):
    config = read_corefile(f".:53 {{\n kubernetes x\n {log}\n}}", DnsConfig(), Sources()).config
    assert (config.log_queries, config.log_classes) == (True, classes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no server block has a `kubernetes`"),
        (".:53 {\n whoami\n}", "not supported: whoami (line 2)"),
        (
            ".:53 {\n kubernetes x {\n  labels a\n }\n acl\n}",
            "not supported: labels (line 3), acl (line 5); remove",
        ),
        (".:53 {\n kubernetes x\n", "line 1: a brace is opened and not closed"),
        ("}", "line 1: a brace is closed"),
        (".:53 { kubernetes x }", "line 1: a brace in the middle"),
        ("{\n}", "line 1: a block without a name"),
        (".:53 {\n kubernetes a b\n}", "line 2: kubernetes with 2 domains"),
        (".:53 {\n kubernetes x {\n  ttl soon\n }\n}", "line 3: ttl takes a number"),
        (".:53 {\n kubernetes x\n forward . example.com\n}", "line 3: upstream 'example.com' is not an address"),
        (
            ".:53 {\n kubernetes x\n forward . 1.1.1.1\n log a.example {\n  class denial some\n }\n whoami\n}",
            "not supported: log a.example (line 4), 'class denial some' in log (line 5), whoami (line 7)",
        ),
        (
            ".:53 {\n kubernetes x\n forward . https://1.1.1.1\n}",
            "line 3: upstream 'https://1.1.1.1': only dns:// and tls:// are supported",
        ),
        (
            ".:53 {\n kubernetes x\n forward . tls://9.9.9.9%a.example {\n  tls_servername b.example\n }\n}",
            "line 4: tls_servername, and a.example for 9.9.9.9:853",
        ),
        (
            ".:53 {\n kubernetes x\n forward . tls://9.9.9.9 {\n  tls a b c d\n }\n}",
            "line 4: usage: tls [CERT KEY] [CA]",
        ),
        (".:53 {\n kubernetes x\n forward .\n}", "line 3: usage: forward FROM TO"),
        (
            "x:53 {\n kubernetes x\n}\n.:5301 {\n forward . 1.1.1.1\n}",
            "not supported: port 5301 (line 4: all names are",
        ),
        (".:53 {\n kubernetes x\n health {\n  lameduck\n }\n}", "line 4: '' is not a duration"),
        (".:53 {\n kubernetes x\n cache {\n  serve_stale soon\n }\n}", "line 4: 'soon' is not a duration"),
        (".:53 {\n kubernetes x\n}\n.:54 {\n kubernetes y\n}", "line 5: a second `kubernetes`"),
        ("tls://.:853 {\n kubernetes x\n}", "'tls' is not supported"),
        (
            ".:53 {\n kubernetes x\n hosts {\n  10.0.0.1 a\n }\n}",
            "line 3: hosts without `fallthrough` would deny every",
        ),
        (".:53 {\n kubernetes x\n hosts {\n  nonsense a\n fallthrough\n }\n}", "'nonsense a' in hosts (line 4)"),
        (".:53 {\n kubernetes x\n rewrite type A AAAA\n}", "rewrite type (line 3)"),
        (".:53 {\n kubernetes x\n rewrite name a\n}", "line 3: usage: rewrite name [KIND] FROM TO"),
        (".:53 {\n kubernetes x\n rewrite name regex ( a\n}", "line 3: rewrite name regex '('"),
        (".:53 {\n kubernetes x\n rewrite name regex a {1}\n}", "line 3: rewrite name regex 'a' has 0 groups"),
        (
            ".:53 {\n kubernetes x\n rewrite name regex a b answer\n}",
            "line 3: 'answer': write answer auto, answer name",
        ),
        (".:53 {\n kubernetes x\n rewrite name regex a b answer ttl 5\n}", "line 3: 'answer ttl 5': write answer auto"),
        (".:53 {\n kubernetes x\n rewrite name regex a b answer value ( c\n}", "line 3: answer value '('"),
        (".:53 {\n kubernetes x\n rewrite name regex a b answer name a {2}\n}", "answer name 'a' has 0 groups"),
        (".:53 {\n kubernetes x\n rewrite name suffix a b answer auto name a b\n}", "exclude each other"),
        (".:53 {\n kubernetes x\n transfer {\n  to nobody\n }\n}", "'nobody' is neither an address nor a range"),
        ("a:53 {\n rewrite name a b\n}\n.:53 {\n kubernetes x\n}", "rewrite outside the cluster's server block"),
        (".:53 {\n autopath @kubernetes\n}\nx:53 {\n kubernetes x\n}", "autopath outside the cluster's server block"),
        (".:53 {\n kubernetes x\n autopath /etc/resolv.conf\n}", "line 3: usage: autopath @kubernetes"),
        (".:53 {\n kubernetes x\n foward . 1.1.1.1\n}", "foward (line 3: did you mean forward?)"),
        (".:53 {\n kubernetes x {\n fall_through\n }\n}", "fall_through (line 3: did you mean fallthrough?)"),
        (".:53 {\n kubernetes x\n proxy . 1.1.1.1\n}", "proxy (line 3: write forward)"),
        (".:53 {\n kubernetes x {\n endpoint https://a\n }\n}", "endpoint (line 3: use --kubeconfig)"),
        (".:53 {\n kubernetes x\n bufsize 100\n}", "line 3: bufsize 100: 512 to 4096"),
        (".:53 {\n kubernetes x\n cache {\n success few\n }\n}", "line 4: usage: success CAPACITY [TTL [MINTTL]]"),
        (".:53 {\n kubernetes x\n cache {\n disable all\n }\n}", "line 4: usage: disable success|denial"),
        (
            ".:53 {\n kubernetes x\n forward a.b 1.1.1.1 {\n except c.a.b\n }\n}",
            "except (line 4: only in",
        ),
        (
            ".:53 {\n kubernetes x\n forward . 1.1.1.1 {\n policy best\n }\n}",
            "policy 'best': one of random, round_robin, seq",
        ),
        (
            ".:53 {\n kubernetes x {\n pods insecur\n }\n}",
            "line 3: pods 'insecur': one of disabled, insecure",
        ),
        (".:53 {\n kubernetes x\n log {\n class succes\n }\n}", "in log (line 4: did you mean success?)"),
        (".:53 {\n kubernetes x\n rewrite nam a b\n}", "rewrite nam (line 3: did you mean name?)"),
        (
            ".:53 {\n kubernetes x\n rewrite name sufix a b\n}",
            "[KIND] FROM TO [ANSWER]; did you mean suffix?",
        ),
        (".:53 {\n kubernetes x\n hosts {\n fall_through\n fallthrough\n }\n}", "(line 4: did you mean fallthrough?)"),
        (".:53 {\n kubernetes x\n template ANY ANY a {\n rcode NXDOMIAN\n }\n}", "did you mean NXDOMAIN?"),
        (".:53 {\n kubernetes x\n transfer {\n from a\n }\n}", "not supported: from (line 4)"),
        (".:53 {\n kubernetes x\n __class__\n}", "not supported: __class__ (line 3)"),
        (".:53 {\n kubernetes x\n forward . 1.1.1.1 {\n failover\n }\n}", "line 4: usage: failover CODE"),
        (".:53 {\n kubernetes x\n forward a.b /lacking\n}", "line 3: /lacking: No such file"),
    ],
)
def test_invalid_corefiles_are_refused(text, message):
    with pytest.raises(ConfigInvalid) as caught:
        read_corefile(text, DnsConfig(), Sources())
    assert message in str(caught.value)


def test_hosts_falls_through_in_selected_zones():
    text = "x {\n kubernetes x\n hosts /dev/null a.example b.example in-addr.arpa {\n fallthrough b.example arpa\n }\n}"
    assert read_corefile(text, DnsConfig(), Sources()).config.denied == (("a.example", 2),)


@pytest.mark.parametrize(("fallthrough", "passed"), [("fallthrough", ("",)), ("fallthrough a.example", ("a.example",))])
def test_hosts_may_pass_on_types(fallthrough, passed):
    lines = f"{fallthrough}\n fallthrough_unsupported\n"
    text = f"x a.example {{\n kubernetes x\n hosts /dev/null a.example {{\n {lines} }}\n}}"
    (hosts,) = read_corefile(text, DnsConfig(), Sources()).config.hosts
    assert hosts.passes_types == passed
    with pytest.raises(ConfigInvalid, match="line 4: fallthrough_unsupported without fallthrough"):
        read_corefile(text.replace(f"{fallthrough}\n", ""), DnsConfig(), Sources())


def test_hosts_files_are_read_with_the_corefile():
    text = """
.:53 {
    kubernetes cluster.local
    hosts /made/up.hosts {
        192.168.65.254 host.minikube.internal
        ttl 60
        no_reverse
        reload 5s
        fallthrough
    }
    hosts /lacking example.org {
        10.0.0.7 A.example.org. example.com
    }
}
corp.example:53 {
    hosts /made/up.hosts
}
"""
    files = {"/made/up.hosts": "# a comment\n10.0.0.9 db.corp.example db # another\n\nnonsense\nfe80::1%lo x\n"}

    def read(path: str) -> str:
        try:
            return files[path]
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory") from None

    config, remarks = read_corefile(text, DnsConfig(), Sources(read=read))

    assert config.hosts == (
        Hosts(
            (("192.168.65.254", ("host.minikube.internal",)), ("10.0.0.9", ("db.corp.example", "db"))),
            ttl=60,
            has_reverse=False,
        ),
        Hosts((("10.0.0.7", ("a.example.org",)),)),
        Hosts((("10.0.0.9", ("db.corp.example",)),)),
    )
    assert config.denied == (("example.org", 2), ("corp.example", 2)), "SERVFAIL, as from CoreDNS"
    assert remarks == (
        "line 11: example.com: not in a zone of these hosts",
        "line 11: /lacking: No such file or directory",
    )
    files["/made/up.hosts"] = ""
    assert read_corefile(text, DnsConfig(), Sources(read=read)).config != config, (
        "a changed file is a changed configuration"
    )


def test_rewrite_and_transfer_are_read():
    config, _ = read_corefile(
        """
.:53 {
    kubernetes cluster.local
    rewrite name Old.example.com new.default.svc.cluster.local
    rewrite continue name suffix .example.org .default.svc.cluster.local answer auto
    rewrite name exact exact b
    rewrite name regex (.*)\\.a {1}.b answer name (.*)\\.b {1}.a value (.*)\\.b {1}.c.
    rewrite name suffix .a .b answer name auto answer value a b
    rewrite stop {
        name regex (.*)-in-([a-z]+)\\.example {1}.{2}.svc.cluster.local
        answer name (.*)\\.([a-z]+)\\.svc\\.cluster\\.local {1}-in-{2}.example
    }
    transfer {
        to 10.0.0.1 10.1.0.0/16 fd00::1
    }
}
""",
        DnsConfig(),
        Sources(),
    )
    assert config.rewrites == (
        RewriteRule("exact", "old.example.com.", "new.default.svc.cluster.local.", is_auto=True),
        RewriteRule("suffix", ".example.org.", ".default.svc.cluster.local.", is_last=False, is_auto=True),
        RewriteRule("exact", "exact.", "b.", is_auto=True),
        RewriteRule(
            "regex",
            r"(.*)\.a",
            "{1}.b.",
            answers=(AnswerRule("name", r"(.*)\.b", "{1}.a."), AnswerRule("value", r"(.*)\.b", "{1}.c.")),
        ),
        RewriteRule("suffix", ".a.", ".b.", is_auto=True, answers=(AnswerRule("value", "a", "b."),)),
        RewriteRule(
            "regex",
            r"(.*)-in-([a-z]+)\.example",
            "{1}.{2}.svc.cluster.local.",
            answers=(AnswerRule("name", r"(.*)\.([a-z]+)\.svc\.cluster\.local", "{1}-in-{2}.example."),),
        ),
    )
    assert [str(network) for network in config.transfer_to] == ["10.0.0.1/32", "10.1.0.0/16", "fd00::1/128"]


def test_rewrite_in_the_root_block_applies():
    config, _ = read_corefile(
        "cluster.local:53 {\n kubernetes cluster.local\n}\n.:53 {\n rewrite name suffix .a .b\n}",
        DnsConfig(),
        Sources(),
    )
    assert config.rewrites == (RewriteRule("suffix", ".a.", ".b.", for_others=True),)


def test_hosts_in_the_cluster_domain_are_refused():
    hosts = (Hosts((("10.0.0.1", ("db.default.svc.cluster.local",)),)),)
    with pytest.raises(ConfigInvalid, match="is in the cluster's own domain"):
        check(DnsConfig(hosts=hosts))


def test_resolv_conf_is_parsed():
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
        ("dns://1.1.1.1", Server("1.1.1.1", 53)),
        ("tls://1.1.1.1", Server("1.1.1.1", 853, Tls())),
        ("tls://[fd00::1]:54", Server("fd00::1", 54, Tls())),
        ("tls://9.9.9.9%dns.quad9.net", Server("9.9.9.9", 853, Tls("dns.quad9.net"))),
        ("tls://9.9.9.9%dns.quad9.net:10853", Server("9.9.9.9", 10853, Tls("dns.quad9.net"))),
        ("tls://[fd00::1]%dns.example:10853", Server("fd00::1", 10853, Tls("dns.example"))),
        ("https://1.1.1.1", None),
        ("1.1.1.1%dns.example", None),
        ("1.1.1.1:0", None),
        ("1.1.1.1:70000", None),
        ("", None),
        ("one.one.one.one", None),
    ],
)
def test_upstream_addresses_are_parsed(text, expected):
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
def test_listen_addresses_are_parsed(text, expected):
    assert parse_address("x", text, 8080) == expected


@pytest.mark.parametrize("text", ["10.0.0.1:x", ":65536", "[::1]:-1"])
def test_what_is_no_address(text):
    with pytest.raises(ConfigInvalid) as caught:
        parse_address("--listen", text, 53)
    assert str(caught.value) == f"--listen: {text!r} is not an address with a port"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DnsConfig(zone=ZoneSettings(domain="")), "'' is not a domain name"),
        (DnsConfig(zone=ZoneSettings(ttl=-1)), "ttl -1"),
        (DnsConfig(processes=0), "processes"),
        (DnsConfig(lameduck_seconds=3601), "lameduck 3601: 0 to 3600 seconds"),
        (DnsConfig(stub_domains=(("a..b", ()),)), "stub domain 'a..b' is not a domain name"),
        (DnsConfig(stub_domains=(("x.cluster.local", ()),)), "in the cluster's own domain"),
        (DnsConfig(stub_domains=(("cluster.local", ()),)), "in the cluster's own domain"),
    ],
)
def test_invalid_configurations_are_refused(config, message):
    with pytest.raises(ConfigInvalid, match=message):
        check(config)


SPLIT = """
cluster.local:53 in-addr.arpa:53 {{
    kubernetes cluster.local in-addr.arpa
}}
corp.example {{
    forward . 10.0.0.1
}}
.:53 {{
    {rest}
}}
"""


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("template ANY ANY {\n rcode NXDOMAIN\n }", {"upstreams": (), "denied": (("", 3),)}),
        ("template IN ANY . {\n rcode REFUSED\n }", {"upstreams": (), "denied": (("", 5),)}),
        ("forward . 10.0.0.2 10.0.0.3:5353", {"upstreams": (Server("10.0.0.2"), Server("10.0.0.3", 5353))}),
        ("forward . /etc/resolv.conf", {"upstreams": None}),
    ],
)
def test_the_root_block_handles_external_names(rest, expected):
    config, _ = read_corefile(SPLIT.format(rest=rest), DnsConfig(), Sources())
    assert config.listen == DnsConfig().listen
    assert config.stub_domains == (("corp.example", (Server("10.0.0.1"),)),)
    assert {name: getattr(config, name) for name in expected} == expected
    check(config)


def test_template_beside_kubernetes_is_refused():
    """CoreDNS would apply the template to cluster names, too."""
    with pytest.raises(ConfigInvalid, match="line 3: template would deny every name of the cluster"):
        read_corefile(
            ". {\n kubernetes cluster.local\n template ANY ANY {\n rcode NXDOMAIN\n }\n}", DnsConfig(), Sources()
        )


def test_a_duplicate_stub_domain_is_refused():
    config, _ = read_corefile(SPLIT.format(rest="forward corp.example 10.0.0.9"), DnsConfig(), Sources())
    with pytest.raises(ConfigInvalid, match="is there twice"):
        check(config)


_HERE = "bind 169.254.20.10 10.96.0.10"
_TO_CLUSTER_DNS = "forward . __PILLAR__CLUSTER__DNS__ {\n        force_tcp\n    }"
NODE_CACHE = f"""
cluster.local:53 {{
    errors
    cache {{
        success 9984 30
        denial 9984 5
    }}
    reload
    loop
    {_HERE}
    {_TO_CLUSTER_DNS}
    prometheus :9253
    health 169.254.20.10:8080
    }}
in-addr.arpa:53 ip6.arpa:53 {{
    errors
    cache 30
    {_HERE}
    {_TO_CLUSTER_DNS}
    prometheus :9253
    }}
.:53 {{
    errors
    cache 30
    {_HERE}
    forward . __PILLAR__UPSTREAM__SERVERS__
    prometheus :9253
    }}
"""


NODE_CACHE_BLOCKS = (
    ("in-addr.arpa", caching(30)),
    ("ip6.arpa", caching(30)),
)


def test_the_corefile_of_nodelocal_dnscache_is_served_on_the_node():
    config, _ = read_corefile(NODE_CACHE, DnsConfig(node_local=("10.96.0.10",)), Sources())
    addresses = (("169.254.20.10", 53), ("10.96.0.10", 53))
    assert config == DnsConfig(
        zone=ZoneSettings("cluster.local", "insecure"), node_local=("10.96.0.10",), listen=addresses,
        cache=caching(30), block_caches=NODE_CACHE_BLOCKS, health=("169.254.20.10", 8080), ready=None,
        metrics=("", 9253),
    )  # fmt: skip
    with pytest.raises(ConfigInvalid, match="__PILLAR__CLUSTER__DNS__"):
        read_corefile(NODE_CACHE, DnsConfig(), Sources())


def test_node_local_addresses_are_canonical_and_unique():
    assert parse_node_local(["10.96.0.10", "FD00:10:96:0::a", "10.96.0.10"]) == ("10.96.0.10", "fd00:10:96::a")


@pytest.mark.parametrize("text", ["kube-dns", "", "10.96.0.10:53", "0.0.0.0", "::", "127.0.0.1", "224.0.0.251"])
def test_invalid_node_local_addresses_are_refused(text):
    with pytest.raises(ConfigInvalid, match="--node-local"):
        parse_node_local([text])


TABLES = (
    DIRECTIVES,
    *(module.OPTIONS for module in (cache, forward, health, hosts, kubernetes, log, template, transfer)),
)


def test_every_directive_has_its_syntax_in_the_table():
    for table in TABLES:
        for name, spec in table.items():
            assert spec.usage.split()[0] == name
            assert spec.doc


def test_the_readme_names_every_directive_and_option():
    page = Path(directives.__file__).parents[2] / "README.md"
    section = page.read_text("utf-8").partition("## A Corefile")[2].partition("\n## ")[0]
    named = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", section))))
    assert {name for table in TABLES for name in table} - named == set()
