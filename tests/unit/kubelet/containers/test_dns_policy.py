"""The resolv.conf of pods by dnsPolicy and dnsConfig."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.containers.dns_policy import pod_resolver
from bridgehead.kubelet.node.resolv_conf import Resolver, resolver_file
from bridgehead.objects.core import Pod, PodDNSConfig, PodDNSConfigOption, PodSpec
from bridgehead.objects.meta import ObjectMeta

NODE = Resolver(nameservers=("10.0.0.1",), searches=("corp.example",), options=("timeout:2",))


def pod(**spec):
    return Pod(metadata=ObjectMeta(name="web-1", namespace="shop"), spec=PodSpec(**spec))


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
def test_resolv_conf_follows_the_dns_policy(spec, expected):
    resolver, warnings = pod_resolver(pod(**spec), NODE, ("10.96.0.10",), "cluster.local")
    assert resolver_file(resolver) == expected
    assert warnings == ()


def test_resolver_limits_are_applied():
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


def test_long_search_paths_are_cut():
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
def test_a_node_without_a_resolver_has_an_empty_resolv_conf(spec, expected):
    resolver, _ = pod_resolver(pod(**spec), Resolver(), ("10.96.0.10",), "cluster.local")
    assert resolver_file(resolver) == expected


def test_without_cluster_dns_the_nodes_resolver_is_used():
    resolver, warnings = pod_resolver(pod(), NODE, (), "cluster.local")
    assert resolver == NODE
    assert warnings == (
        (
            "MissingClusterDNS",
            'pod: "web-1_shop()". kubelet does not have ClusterDNS IP configured and cannot create Pod using '
            '"ClusterFirst" policy. Falling back to "Default" policy.',
        ),
    )
