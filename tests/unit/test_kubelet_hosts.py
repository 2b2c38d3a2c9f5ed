"""A pod's /etc/hosts and /etc/resolv.conf."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.hosts import (
    Resolver,
    host_name,
    hosts_file,
    kernel_host_name,
    parse_resolver,
    pod_resolver,
    resolver_file,
)
from bridgehead.objects.core import HostAlias, Pod, PodDNSConfig, PodDNSConfigOption, PodSpec
from bridgehead.objects.meta import ObjectMeta

NODE = Resolver(nameservers=("10.0.0.1",), searches=("corp.example",), options=("timeout:2",))


def pod(**spec):
    return Pod(metadata=ObjectMeta(name="web-1", namespace="shop"), spec=PodSpec(**spec))


def test_hosts_as_kubernetes_writes_it():
    assert hosts_file(pod(), ("10.244.1.5",), "cluster.local") == (
        "# Kubernetes-managed hosts file.\n"
        "127.0.0.1\tlocalhost\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\n"
        "fe00::0\tip6-localnet\n"
        "fe00::0\tip6-mcastprefix\n"
        "fe00::1\tip6-allnodes\n"
        "fe00::2\tip6-allrouters\n"
        "10.244.1.5\tweb-1\n"
    )


def test_hosts_with_subdomain_and_aliases():
    spec = pod(hostname="db", subdomain="sets", host_aliases=(HostAlias(ip="1.2.3.4", hostnames=("a", "b.c")),))
    lines = hosts_file(spec, ("10.244.1.5",), "cluster.local").splitlines()
    assert lines[7:] == [
        "10.244.1.5\tdb.sets.shop.svc.cluster.local\tdb",
        "",
        "# Entries added by HostAliases.",
        "1.2.3.4\ta\tb.c",
    ]


def test_hosts_with_addresses_of_both_families():
    lines = hosts_file(pod(hostname="db", subdomain="sets"), ("10.244.1.5", "fd00::5"), "cluster.local").splitlines()
    assert lines[7:] == [
        "10.244.1.5\tdb.sets.shop.svc.cluster.local\tdb",
        "fd00::5\tdb.sets.shop.svc.cluster.local\tdb",
    ]


def test_a_host_network_pod_sees_the_hosts_of_its_node():
    text = hosts_file(pod(host_network=True), ("10.0.0.201",), "cluster.local", "127.0.0.1 localhost\n")
    assert text == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"


def test_a_name_that_overrides_all_others_is_in_no_domain():
    spec = pod(hostname="db", subdomain="sets", hostname_override="db.corp.example")
    assert hosts_file(spec, ("10.244.1.5",), "cluster.local").splitlines()[7:] == ["10.244.1.5\tdb.corp.example"]


def test_long_names_are_cut():
    long = Pod(metadata=ObjectMeta(name="a" * 62 + "-b", namespace="x"))
    assert host_name(long) == "a" * 62


CONFIG = PodDNSConfig(
    nameservers=("1.1.1.1",),
    searches=("my.dns",),
    options=(PodDNSConfigOption(name="ndots", value="2"), PodDNSConfigOption(name="edns0")),
)
CLUSTER = "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\n"
AT_NODE = "search corp.example\nnameserver 10.0.0.1\noptions timeout:2\n"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, CLUSTER + "options ndots:5\n"),
        ({"dns_policy": "Default"}, AT_NODE),
        ({"host_network": True}, AT_NODE),
        ({"host_network": True, "dns_policy": "ClusterFirstWithHostNet"}, CLUSTER + "options ndots:5\n"),
        (
            {"dns_policy": "None", "dns_config": CONFIG},
            "search my.dns\nnameserver 1.1.1.1\noptions ndots:2 edns0\n",
        ),
        (
            {"dns_config": CONFIG},
            "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example my.dns\n"
            "nameserver 10.96.0.10\nnameserver 1.1.1.1\noptions ndots:2 edns0\n",
        ),
    ],
    ids=["ClusterFirst", "Default", "host network", "ClusterFirstWithHostNet", "None", "config merged"],
)
def test_resolv_conf(spec, expected):
    resolver, warnings = pod_resolver(pod(**spec), NODE, ("10.96.0.10",), "cluster.local")
    assert resolver_file(resolver) == expected
    assert warnings == ()


def test_the_limits_of_a_resolver():
    many = PodDNSConfig(nameservers=tuple(f"1.1.1.{n}" for n in range(5)), searches=tuple(f"s{n}" for n in range(40)))
    resolver, warnings = pod_resolver(pod(dns_policy="None", dns_config=many), NODE, (), "cluster.local")
    assert len(resolver.nameservers) == 3
    assert len(resolver.searches) == 32
    assert warnings == (
        (
            "DNSConfigForming",
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "
            + " ".join(f"s{n}" for n in range(32)),
        ),
        (
            "DNSConfigForming",
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
            "1.1.1.0 1.1.1.1 1.1.1.2",
        ),
    )


def test_search_paths_that_are_too_long():
    searches = ("a" * 254, *(f"{number:03}." + "b" * 196 for number in range(12)))
    config = PodDNSConfig(nameservers=("1.1.1.1",), searches=searches)
    resolver, [(reason, _)] = pod_resolver(pod(dns_policy="None", dns_config=config), NODE, (), "cluster.local")
    assert resolver.searches == searches[1:11]
    assert len(" ".join(resolver.searches)) <= 2048
    assert reason == "DNSConfigForming"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"dns_policy": "Default"}, "search .\nnameserver 127.0.0.1\n"),
        (
            {},
            "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n",
        ),
    ],
)
def test_a_node_without_a_resolver(spec, expected):
    resolver, _ = pod_resolver(pod(**spec), Resolver(), ("10.96.0.10",), "cluster.local")
    assert resolver_file(resolver) == expected


def test_a_node_without_cluster_dns():
    resolver, warnings = pod_resolver(pod(), NODE, (), "cluster.local")
    assert resolver == NODE
    assert warnings == (
        (
            "MissingClusterDNS",
            'pod: "web-1_shop()". kubelet does not have ClusterDNS IP configured and cannot create Pod using '
            '"ClusterFirst" policy. Falling back to "Default" policy.',
        ),
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "web-1"),
        ({"set_hostname_as_fqdn": True}, "web-1"),
        ({"subdomain": "sets"}, "web-1"),
        ({"subdomain": "sets", "set_hostname_as_fqdn": True}, "web-1.sets.shop.svc.cluster.local"),
        (
            {"subdomain": "sets", "hostname": "x" * 36, "set_hostname_as_fqdn": True},
            "x" * 36 + ".sets.shop.svc.cluster.local",
        ),
        ({"subdomain": "sets", "hostname": "db", "hostname_override": "db.corp.example"}, "db.corp.example"),
        ({"hostname_override": "x" * 60 + ".com"}, "x" * 60 + ".com"),
    ],
)
def test_the_name_that_the_kernel_has(spec, expected):
    assert kernel_host_name(pod(**spec), "cluster.local") == expected


def test_a_name_too_long_for_the_kernel():
    spec = pod(subdomain="sets", hostname="x" * 37, set_hostname_as_fqdn=True)
    with pytest.raises(ValueError, match=r"is too long \(64 characters is the max, 65 characters requested\)"):
        kernel_host_name(spec, "cluster.local")


def test_reading_a_nodes_file():
    text = "# comment\nsearch a. . b\ndomain corp\nnameserver 9.9.9.9 # here\n; other\noptions rotate ndots:1\n"
    assert parse_resolver(text) == Resolver(
        nameservers=("9.9.9.9",), searches=("a", "b"), options=("rotate", "ndots:1")
    )
