"""KubeProxyConfiguration: what is read, what is refused, what is warned about."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.proxy.config import (
    DEFAULTS,
    ConntrackOptions,
    IpvsOptions,
    ProxyConfig,
    in_use,
    parse_config,
    require_mode,
    with_field,
)
from bridgehead.proxy.config_reader import parse_bind_address
from bridgehead.proxy.errors import ConfigInvalid

HEAD = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}

# The configuration that kubeadm writes.
KUBEADM: dict[str, Any] = HEAD | {
    "bindAddress": "0.0.0.0",
    "bindAddressHardFail": False,
    "clientConnection": {"acceptContentTypes": "", "burst": 0, "contentType": "", "kubeconfig": "/x.conf", "qps": 0},
    "clusterCIDR": "10.244.0.0/16",
    "configSyncPeriod": "0s",
    "conntrack": {"maxPerCore": None, "min": None, "tcpCloseWaitTimeout": None, "tcpEstablishedTimeout": None},
    "detectLocal": {"bridgeInterface": "", "interfaceNamePrefix": ""},
    "detectLocalMode": "",
    "enableProfiling": False,
    "healthzBindAddress": "",
    "hostnameOverride": "",
    "iptables": {"masqueradeAll": False, "masqueradeBit": None, "minSyncPeriod": "0s", "syncPeriod": "0s"},
    "ipvs": {"excludeCIDRs": None, "scheduler": "", "syncPeriod": "0s"},
    "metricsBindAddress": "",
    "mode": "",
    "nodePortAddresses": None,
    "oomScoreAdj": None,
    "portRange": "",
    "showHiddenMetricsForVersion": "",
    "winkernel": {"enableDSR": False},
}


def test_the_configuration_of_kubeadm_is_accepted_without_a_warning() -> None:
    config = parse_config(KUBEADM)

    assert config == ProxyConfig(kubeconfig="/x.conf", cluster_cidrs=("10.244.0.0/16",))


@pytest.mark.parametrize(("text", "seconds"), [(None, 30.0), ("0s", 30.0), ("250ms", 0.25), ("1m", 60.0)])
def test_the_udp_timeout_of_userspace_mode_is_read(text: Any, seconds: float) -> None:
    config = parse_config(HEAD | {"mode": "userspace", "udpIdleTimeout": text, "userspace": {"syncPeriod": "1m"}})

    assert (config.udp_idle_seconds, config.sync_period, config.warnings) == (seconds, 60.0, ())


def test_every_used_field_is_read() -> None:
    config = parse_config(
        HEAD
        | {
            "mode": "nftables",
            "hostnameOverride": "n",
            "clusterCIDR": "10.244.0.0/16,fd00::/48",
            "detectLocalMode": "NodeCIDR",
            "nodePortAddresses": ["10.0.0.0/24"],
            "nftables": {"masqueradeAll": True, "syncPeriod": "1m", "minSyncPeriod": "500ms"},
            "healthzBindAddress": "127.0.0.1:1",
            "metricsBindAddress": "[::1]:2",
        }
    )

    assert config == ProxyConfig(
        hostname_override="n",
        detect_local_mode="NodeCIDR",
        node_port_addresses=("10.0.0.0/24",),
        masquerade_all=True,
        sync_period=60.0,
        min_sync_period=0.5,
        healthz=("127.0.0.1", 1),
        metrics=("::1", 2),
    )
    assert parse_config(HEAD | {"nodePortAddresses": ["primary"]}).node_port_addresses == ("primary",)
    both = HEAD | {"clusterCIDR": "10.244.0.0/16,fd00::/48"}
    assert parse_config(both).cluster_cidrs == ("10.244.0.0/16", "fd00::/48")


def test_node_ports_are_on_primary_addresses_only_in_nftables_mode() -> None:
    modes = ("nftables", "iptables", "ipvs", "userspace")

    found = {mode: parse_config(HEAD | {"mode": mode}).node_port_addresses for mode in modes}

    assert found == {"nftables": ("primary",), "iptables": (), "ipvs": (), "userspace": ()}


def test_the_documented_defaults_are_the_defaults() -> None:
    assert parse_config(dict(DEFAULTS)) == ProxyConfig()
    assert parse_config(HEAD) == ProxyConfig()


def test_fields_without_effect_are_warnings() -> None:
    asked = HEAD | {"conntrack": {"maxPerCore": 1, "more": 1}, "nftables": {"scheduler": "rr"}, "foo": "bar", "baz": {}}

    assert parse_config(asked).warnings == (
        "conntrack.more is not used",
        "nftables.scheduler is not used",
        "foo is not used",
    )


def test_process_options_are_read() -> None:
    config = parse_config(
        HEAD | {"oomScoreAdj": -998, "logging": {"verbosity": 4, "format": "text", "flushFrequency": 0}}
    )

    assert (config.oom_score_adj, config.verbosity, config.warnings) == (-998, 4, ())
    assert parse_config(HEAD | {"oomScoreAdj": None}).oom_score_adj == -999, "as kube-proxy has it"
    assert parse_config(HEAD | {"oomScoreAdj": 0}).oom_score_adj == 0
    asked = HEAD | {"enableProfiling": True, "featureGates": {"A": True}, "logging": {"vmodule": [{"x": 1}]}}
    assert parse_config(asked).warnings == (
        "enableProfiling is not used",
        "featureGates is not used",
        "logging.vmodule is not used",
    )


def test_the_effective_configuration_is_complete() -> None:
    found = in_use(HEAD | {"mode": "", "iptables": {"syncPeriod": "1m"}, "ipvs": None}, "iptables", "node1")

    assert found == {**DEFAULTS, "mode": "iptables", "hostnameOverride": "node1"} | {
        "iptables": {**DEFAULTS["iptables"], "syncPeriod": "1m"}
    }
    assert parse_config(found) == parse_config(
        HEAD | {"mode": "iptables", "iptables": {"syncPeriod": "1m"}, "hostnameOverride": "node1"}
    )


def test_an_ipv6_bind_address_applies_to_ports_without_an_address() -> None:
    config = parse_config(HEAD | {"bindAddress": "fd00:10::201"})

    assert (config.healthz, config.metrics) == (("::", 10256), ("::1", 10249))
    shown = in_use(HEAD | {"bindAddress": "::"}, "nftables", "node1")
    assert (shown["healthzBindAddress"], shown["metricsBindAddress"]) == ("[::]:10256", "[::1]:10249")
    assert parse_config(HEAD | {"bindAddress": "::", "metricsBindAddress": "0.0.0.0"}).metrics == ("0.0.0.0", 10249)


def test_conntrack_settings_are_read() -> None:
    asked = {
        "maxPerCore": 0,
        "min": 7,
        "tcpEstablishedTimeout": "1h",
        "tcpCloseWaitTimeout": "0s",
        "tcpBeLiberal": True,
        "udpTimeout": "30s",
        "udpStreamTimeout": "2m",
    }

    assert parse_config(HEAD | {"conntrack": asked}).conntrack == ConntrackOptions(0, 7, 3600, 0, True, 30, 120)


def test_pods_are_detected_by_the_configured_method() -> None:
    bridge = HEAD | {"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cbr0"}}
    prefix = HEAD | {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "veth"}}

    assert parse_config(bridge).pod_interface == "cbr0"
    assert parse_config(prefix).pod_interface == "veth*"
    assert parse_config(HEAD | {"detectLocal": {"bridgeInterface": "cbr0"}}).pod_interface == ""


def test_an_option_sets_its_field() -> None:
    document = with_field(with_field(DEFAULTS, "iptables.syncPeriod", "5s"), "mode", "iptables")

    assert (parse_config(document).mode, parse_config(document).sync_period) == ("iptables", 5.0)
    assert DEFAULTS["iptables"]["syncPeriod"] == "30s"
    with pytest.raises(ConfigInvalid, match="not an object"):
        parse_config(with_field({"iptables": 3, **HEAD}, "mode", "iptables"))


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "not a KubeProxyConfiguration"),
        ({"kind": "ConfigMap"}, "kind: 'ConfigMap'"),
        ({"kind": "KubeProxyConfiguration", "apiVersion": "v1"}, "apiVersion: 'v1'"),
        (HEAD | {"mode": 3}, "mode: 3 is not a string"),
        # The text after "Invalid value" is that of kube-proxy's validation.
        (
            HEAD | {"clusterCIDR": "10.244.0.0"},
            'clusterCIDR: Invalid value: "10.244.0.0": must be a valid CIDR block (e.g. 10.100.0.0/16 or '
            "fde4:8dba:82e1::/48)",
        ),
        (
            HEAD | {"clusterCIDR": "10.244.0.0/16,10.245.0.0/16"},
            'clusterCIDR: Invalid value: "10.244.0.0/16,10.245.0.0/16": must be a either a single CIDR or dual-stack',
        ),
        (
            HEAD | {"clusterCIDR": "10.244.0.0/16,fd00::/48,10.245.0.0/16"},
            "must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]",
        ),
        (
            HEAD | {"detectLocalMode": "Magic"},
            'detectLocalMode: Unsupported value: "Magic": supported values: "ClusterCIDR", "NodeCIDR", "Bridge',
        ),
        (
            HEAD | {"detectLocalMode": "BridgeInterface"},
            'detectLocal.bridgeInterface: Invalid value: "": must not be empty',
        ),
        (
            HEAD | {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": '"; drop'}},
            'detectLocal.interfaceNamePrefix: Invalid value: "\\"; drop": must be the name of an interface',
        ),
        (
            HEAD | {"bindAddress": "here"},
            'bindAddress: Invalid value: "here": not a valid textual representation of an IP address',
        ),
        (
            HEAD | {"nftables": {"masqueradeBit": 32}},
            "nftables.masqueradeBit: Invalid value: 32: must be within the range [0, 31]",
        ),
        (
            HEAD | {"mode": "ipvs", "iptables": {"masqueradeBit": -1}},
            "iptables.masqueradeBit: Invalid value: -1: must be within the range [0, 31]",
        ),
        (HEAD | {"nftables": {"masqueradeBit": True}}, "nftables.masqueradeBit: True is not a whole number"),
        (HEAD | {"oomScoreAdj": -1001}, "oomScoreAdj: Invalid value: -1001: must be within the range [-1000, 1000]"),
        (HEAD | {"conntrack": {"min": -1}}, "conntrack.min: Invalid value: -1: must be greater than or equal to 0"),
        (HEAD | {"conntrack": {"maxPerCore": -2}}, "conntrack.maxPerCore: Invalid value: -2: must be greater than or"),
        (HEAD | {"conntrack": {"udpTimeout": "x"}}, "conntrack.udpTimeout: 'x' is not a duration"),
        *(
            (
                HEAD | {"conntrack": {field: "-1s"}},
                f'conntrack.{field}: Invalid value: "-1s": must be greater than or equal to 0',
            )
            for field in ("tcpEstablishedTimeout", "tcpCloseWaitTimeout", "udpTimeout", "udpStreamTimeout")
        ),
        *(
            (
                HEAD | {"mode": "ipvs", "ipvs": {field: "-1s"}},
                f'ipvs.{field}: Invalid value: "-1s": must be greater than or equal to 0',
            )
            for field in ("tcpTimeout", "tcpFinTimeout", "udpTimeout", "minSyncPeriod")
        ),
        (
            HEAD | {"mode": "ipvs", "ipvs": {"excludeCIDRs": ["10.0.0.0/8", "x"]}},
            'ipvs.excludeCIDRs[1]: Invalid value: "x": must be a valid CIDR',
        ),
        (HEAD | {"configSyncPeriod": "-1s"}, 'configSyncPeriod: Invalid value: "-1s": must be greater than 0'),
        (
            HEAD | {"clientConnection": {"burst": -1}},
            "clientConnection.burst: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            HEAD | {"showHiddenMetricsForVersion": "1.36"},
            'showHiddenMetricsForVersion: Invalid value: "1.36": --show-hidden-metrics-for-version must be omitted or '
            "have the value '1.35'. Only the previous minor version is allowed",
        ),
        (HEAD | {"mode": "ipvs", "ipvs": {"scheduler": "best"}}, "ipvs.scheduler: 'best' is no scheduler"),
        (HEAD | {"nodePortAddresses": 10}, "nodePortAddresses: not a list"),
        (
            HEAD | {"nodePortAddresses": ["10.0.0.0/8", "primary"]},
            "nodePortAddresses[1]: Invalid value: \"primary\": can't use both 'primary' and CIDRs",
        ),
        (
            HEAD | {"nodePortAddresses": ["10.0.0.1"]},
            'nodePortAddresses[0]: Invalid value: "10.0.0.1": must be a valid CIDR',
        ),
        (HEAD | {"nftables": []}, "nftables: not an object"),
        (HEAD | {"nftables": {"syncPeriod": "soon"}}, "nftables.syncPeriod: 'soon'"),
        (
            HEAD | {"mode": "iptables", "iptables": {"minSyncPeriod": "1m"}},
            'iptables.syncPeriod: Invalid value: "30s": must be greater than or equal to iptables.minSyncPeriod, 60s',
        ),
        (
            HEAD | {"nftables": {"syncPeriod": "-1s"}},
            'nftables.syncPeriod: Invalid value: "-1s": must be greater than 0',
        ),
        (HEAD | {"nftables": {"masqueradeAll": "yes"}}, "masqueradeAll: 'yes'"),
        (HEAD | {"healthzBindAddress": "x:1"}, 'healthzBindAddress: Invalid value: "x": must be a valid IP'),
        (HEAD | {"healthzBindAddress": "x"}, 'healthzBindAddress: Invalid value: "x": must be IP:port'),
        (HEAD | {"healthzBindAddress": "::1:1:"}, 'healthzBindAddress: Invalid value: "::1:1:": must be IP:port'),
        (HEAD | {"metricsBindAddress": ":10249"}, 'metricsBindAddress: Invalid value: "": must be a valid IP'),
        *(
            (
                HEAD | {"metricsBindAddress": f"0.0.0.0:{port}"},
                f'metricsBindAddress: Invalid value: "{port}": must be a valid port',
            )
            for port in ("y", "0", "65536", "-1", "")
        ),
    ],
)
def test_invalid_values_are_refused_with_their_field(document: object, text: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse_config(document)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_mode_reads_its_own_section() -> None:
    both = HEAD | {
        "iptables": {"masqueradeAll": True, "syncPeriod": "1m", "localhostNodePorts": False, "scheduler": "rr"},
        "nftables": {"syncPeriod": "2m", "masqueradeBit": 3},
        "ipvs": {"scheduler": "sh", "excludeCIDRs": ["10.0.0.1/8"], "tcpTimeout": "5s"},
    }

    config = parse_config(both | {"mode": "iptables"})
    assert (config.mode, config.masquerade_all, config.sync_period) == ("iptables", True, 60.0)
    assert config.localhost_node_ports is False
    assert config.warnings == ("iptables.scheduler is not used",)
    assert parse_config(both, "iptables") == config, "a mode on the command line goes before"
    config = parse_config(both)
    assert (config.mode, config.masquerade_all, config.sync_period) == ("nftables", False, 120.0)
    assert (config.masquerade_bit, config.warnings) == (3, ())
    assert parse_config(both, "ipvs").ipvs == IpvsOptions("sh", ("10.0.0.0/8",), tcp_timeout=5)
    assert parse_config(HEAD, "iptables").localhost_node_ports, "as kube-proxy has it"


@pytest.mark.parametrize(
    ("addresses", "has_loopback"),
    [
        ([], True),
        (["primary"], False),
        (["10.0.0.0/24"], False),
        (["10.0.0.0/24", "127.0.0.0/8"], True),
        (["0.0.0.0/0"], True),
        (["fd00:10::/64"], True),  # IPv4 is not limited
    ],
)
def test_node_ports_answer_on_loopback_only_if_it_is_selected(addresses: list[str], has_loopback: bool) -> None:
    config = parse_config(HEAD | {"nodePortAddresses": addresses}, "iptables")

    assert config.localhost_node_ports is has_loopback


@pytest.mark.parametrize("mode", ["kernelspace", "nonsense"])
def test_a_mode_that_does_not_exist_has_the_settings_of_the_default_mode(mode: str) -> None:
    """A configuration that many nodes share must not stop their proxies. On a command line it is an error."""
    config = parse_config(HEAD | {"mode": mode, "nftables": {"syncPeriod": "1m"}, "iptables": {"syncPeriod": "2m"}})

    assert (config.mode, config.sync_period, config.node_port_addresses) == (mode, 60.0, ("primary",))
    with pytest.raises(ConfigInvalid) as caught:
        require_mode(mode)
    assert str(caught.value).startswith(
        f'mode: Invalid value: "{mode}": must be iptables, ipvs, nftables, userspace or blank (blank means the '
        "best-available proxy [currently nftables])"
    )


def test_every_mode_exists_and_blank_is_the_default() -> None:
    for mode in ("", "iptables", "ipvs", "nftables", "userspace"):
        require_mode(mode)
    assert parse_config(HEAD | {"mode": ""}).mode == "nftables"


def test_mode_ipvs_masquerades_by_the_section_of_mode_iptables() -> None:
    asked = HEAD | {
        "mode": "ipvs",
        "iptables": {"masqueradeAll": True, "masqueradeBit": 3, "syncPeriod": "1m"},
        "ipvs": {"masqueradeAll": True, "syncPeriod": "2m"},
    }

    config = parse_config(asked)

    assert (config.masquerade_all, config.masquerade_bit, config.sync_period) == (True, 3, 120.0)
    assert config.warnings == ("ipvs.masqueradeAll is not used",)
    assert "masqueradeAll" not in DEFAULTS["ipvs"]
    asked["iptables"] = {}
    assert parse_config(asked).masquerade_all is False


def test_the_internal_field_of_cluster_cidrs_is_no_field_of_the_file() -> None:
    assert parse_config(HEAD | {"detectLocal": {"clusterCIDRs": ["10.0.0.0/8"]}}).warnings == (
        "detectLocal.clusterCIDRs is not used",
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("0.0.0.0", 10256)),
        ("127.0.0.1", ("127.0.0.1", 10256)),
        ("::1", ("::1", 10256)),
        ("[::1]:9", ("::1", 9)),
        ("0.0.0.0:9", ("0.0.0.0", 9)),
    ],
)
def test_bind_addresses_are_parsed(text: str, address: tuple[str, int] | None) -> None:
    assert parse_bind_address("x", text, ("0.0.0.0", 10256)) == address
