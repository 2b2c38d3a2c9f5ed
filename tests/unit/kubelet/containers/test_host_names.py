"""Host names and /etc/hosts of pods."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.containers.host_names import host_name, hosts_file, kernel_host_name
from bridgehead.objects.core import HostAlias, Pod, PodSpec
from bridgehead.objects.meta import ObjectMeta


def pod(**spec):
    return Pod(metadata=ObjectMeta(name="web-1", namespace="shop"), spec=PodSpec(**spec))


def test_etc_hosts_matches_kubernetes():
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


def test_etc_hosts_has_subdomain_and_aliases():
    spec = pod(hostname="db", subdomain="sets", host_aliases=(HostAlias(ip="1.2.3.4", hostnames=("a", "b.c")),))
    lines = hosts_file(spec, ("10.244.1.5",), "cluster.local").splitlines()
    assert lines[7:] == [
        "10.244.1.5\tdb.sets.shop.svc.cluster.local\tdb",
        "",
        "# Entries added by HostAliases.",
        "1.2.3.4\ta\tb.c",
    ]


def test_etc_hosts_has_addresses_of_both_families():
    lines = hosts_file(pod(hostname="db", subdomain="sets"), ("10.244.1.5", "fd00::5"), "cluster.local").splitlines()
    assert lines[7:] == [
        "10.244.1.5\tdb.sets.shop.svc.cluster.local\tdb",
        "fd00::5\tdb.sets.shop.svc.cluster.local\tdb",
    ]


def test_a_host_network_pod_sees_the_hosts_of_its_node():
    text = hosts_file(pod(host_network=True), ("10.0.0.201",), "cluster.local", "127.0.0.1 localhost\n")
    assert text == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"


def test_a_hostname_override_is_written_without_a_domain():
    spec = pod(hostname="db", subdomain="sets", hostname_override="db.corp.example")
    assert hosts_file(spec, ("10.244.1.5",), "cluster.local").splitlines()[7:] == ["10.244.1.5\tdb.corp.example"]


def test_long_host_names_are_truncated():
    long = Pod(metadata=ObjectMeta(name="a" * 62 + "-b", namespace="x"))
    assert host_name(long) == "a" * 62


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
def test_the_kernels_host_name_follows_set_hostname_as_fqdn(spec, expected):
    assert kernel_host_name(pod(**spec), "cluster.local") == expected


def test_a_host_name_too_long_for_the_kernel_is_refused():
    spec = pod(subdomain="sets", hostname="x" * 37, set_hostname_as_fqdn=True)
    with pytest.raises(ValueError, match=r"is too long \(64 characters is the max, 65 characters requested\)"):
        kernel_host_name(spec, "cluster.local")
