"""docs/configurations.md against the code, and the code against what kube-proxy, CoreDNS and MetalLB read.

The lists are those of Kubernetes 1.36 (staging/src/k8s.io/kube-proxy/config/v1alpha1/types.go), CoreDNS (plugin.cfg)
and MetalLB 0.16 (controller/main.go, speaker/main.go, charts/metallb).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.cli import balancer, speaker
from bridgehead.cli.options import rows_of, spelled
from bridgehead.dns.config import DnsConfig, ZoneSettings
from bridgehead.dns.corefile import Sources, read_corefile
from bridgehead.dns.corefile.directives import DIRECTIVES
from bridgehead.dns.errors import ConfigInvalid as CorefileInvalid
from bridgehead.objects import metallb
from bridgehead.proxy.config import API_VERSION, KIND, WITHOUT_EFFECT, parse_config, with_field
from bridgehead.proxy.errors import ConfigInvalid

PAGE = Path(__file__).parents[2] / "docs" / "configurations.md"

# Each field with a value that is not its default.
_PERIODS = {"syncPeriod": "20s", "minSyncPeriod": "2s"}
KUBE_PROXY: Mapping[str, Any] = {
    "featureGates": {"A": True},
    "clientConnection.kubeconfig": "/k",
    "clientConnection.acceptContentTypes": "application/json",
    "clientConnection.contentType": "application/json",
    "clientConnection.qps": 7,
    "clientConnection.burst": 7,
    "logging.format": "json",
    "logging.flushFrequency": "9s",
    "logging.verbosity": 2,
    "logging.vmodule": [{"filePattern": "a", "verbosity": 1}],
    "logging.options": {"text": {"splitStream": True}},
    "hostnameOverride": "n",
    "bindAddress": "10.0.0.1",
    "healthzBindAddress": "127.0.0.1:1",
    "metricsBindAddress": "127.0.0.1:2",
    "bindAddressHardFail": True,
    "enableProfiling": True,
    "showHiddenMetricsForVersion": "1.35",
    "mode": "iptables",
    **{f"{mode}.{name}": value for mode in ("iptables", "ipvs", "nftables") for name, value in _PERIODS.items()},
    **{f"{mode}.masqueradeBit": 3 for mode in ("iptables", "nftables")},
    **{f"{mode}.masqueradeAll": True for mode in ("iptables", "nftables")},
    "iptables.localhostNodePorts": False,
    "ipvs.scheduler": "sh",
    "ipvs.excludeCIDRs": ["10.0.0.0/8"],
    "ipvs.strictARP": True,
    "ipvs.tcpTimeout": "9s",
    "ipvs.tcpFinTimeout": "9s",
    "ipvs.udpTimeout": "9s",
    "winkernel": {"networkName": "n"},
    "detectLocalMode": "NodeCIDR",
    "detectLocal.bridgeInterface": "b0",
    "detectLocal.interfaceNamePrefix": "p",
    "clusterCIDR": "10.0.0.0/8",
    "nodePortAddresses": ["10.0.0.0/8"],
    "oomScoreAdj": 1,
    "conntrack.maxPerCore": 1,
    "conntrack.min": 1,
    "conntrack.tcpEstablishedTimeout": "9s",
    "conntrack.tcpCloseWaitTimeout": "9s",
    "conntrack.tcpBeLiberal": True,
    "conntrack.udpTimeout": "9s",
    "conntrack.udpStreamTimeout": "9s",
    "configSyncPeriod": "9s",
    "portRange": "1-2",
    "windowsRunAsService": True,
}
_NEEDS = {"detectLocal.bridgeInterface": "BridgeInterface", "detectLocal.interfaceNamePrefix": "InterfaceNamePrefix"}
PLUGINS = (
    "metadata", "geoip", "cancel", "tls", "timeouts", "multisocket", "reload", "nsid", "bufsize", "bind",
    "debug", "trace", "ready", "health", "pprof", "prometheus", "errors", "log", "dnstap", "local", "dns64",
    "any", "chaos", "loadbalance", "tsig", "cache", "rewrite", "header", "dnssec", "autopath", "minimal",
    "template", "transfer", "hosts", "route53", "azure", "clouddns", "k8s_external", "kubernetes", "file",
    "auto", "secondary", "etcd", "loop", "forward", "grpc", "quic", "erratic", "whoami", "on", "sign", "view",
    "acl", "root", "nomad",
)  # fmt: skip
CONTROLLER = (
    "port", "namespace", "ml-secret-name", "deployment", "log-level", "pprof-bind-address",
    "disable-cert-rotation", "cert-dir", "cert-service-name", "lb-class", "webhook-mode", "webhook-secret",
    "pod-name", "webhook-http2", "tls-min-version", "tls-cipher-suites", "tls-curve-preferences",
    "metrics-cert-dir",
)  # fmt: skip
SPEAKER = (
    "namespace", "host", "ml-bindaddr", "ml-bindport", "ml-labels", "ml-secret-key-path", "node-name", "port",
    "log-level", "disable-epslices", "enable-pprof", "lb-class", "pprof-bind-address", "pod-name",
    "tls-min-version", "tls-cipher-suites", "tls-curve-preferences", "metrics-cert-dir", "ml-wan-config",
    "frrk8s-namespace", "ignore-exclude-lb",
)  # fmt: skip
CHART_COREFILE = """.:53 {
    errors
    health {
        lameduck 10s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus 0.0.0.0:9153
    forward . 192.0.2.1
    cache 30
    loop
    reload
    loadbalance
}
"""


def effect_of_field(name: str, value: Any) -> str:
    """Classify a field by what `parse_config` makes of it."""
    head: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    section = name.partition(".")[0]
    mode = section if section in ("iptables", "ipvs", "nftables") else "nftables"
    base = head | {"mode": mode} | ({"detectLocalMode": _NEEDS[name]} if name in _NEEDS else {})
    try:
        config = parse_config(with_field(base, name, value))
    except ConfigInvalid:
        return "refused"
    if any(re.match(rf"{re.escape(name)}[. ]", warning) for warning in config.warnings):
        return "without effect"
    assert name in _NEEDS or name == "showHiddenMetricsForVersion" or config != parse_config(base), f"{name} is ignored"
    return "obeyed"


def effects_of_options(options: type) -> dict[str, str]:
    """Classify the options of a command by their names."""
    found = {}
    for name, row in rows_of(options).items():
        effect = "without effect" if row.without_effect else "refused" if row.refusal else "obeyed"
        found |= dict.fromkeys((spelled(name), *row.names), effect)
    return found


def table(heading: str) -> dict[str, str]:
    """Name -> effect, of a table of the page. A line has several names, in backquotes, and an effect."""
    section = PAGE.read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (obeyed|refused|without effect)\b", section, re.MULTILINE)
    return {name: effect for names, effect in rows for name in re.findall(r"`([^`]+)`", names)}


def test_each_field_of_kube_proxy_is_in_the_table_as_it_is_treated() -> None:
    assert table("KubeProxyConfiguration") == {name: effect_of_field(name, value) for name, value in KUBE_PROXY.items()}
    assert set(WITHOUT_EFFECT) <= set(KUBE_PROXY)


@pytest.mark.parametrize(("heading", "flags", "command"), [
    ("MetalLB's controller", CONTROLLER, balancer), ("MetalLB's speaker", SPEAKER, speaker),
])  # fmt: skip
def test_each_flag_of_metallb_is_in_the_table_as_it_is_treated(
    heading: str, flags: tuple[str, ...], command: Any
) -> None:
    effects = effects_of_options(command.Options)
    assert table(heading) == {f"--{flag}": effects[f"--{flag}"] for flag in flags}


def test_each_plugin_of_coredns_is_in_the_table_as_it_is_treated() -> None:
    found = table("Corefile")
    assert set(found) == set(PLUGINS)
    assert {name for name, effect in found.items() if effect == "obeyed"} == set(DIRECTIVES)
    for name in set(PLUGINS) - set(DIRECTIVES):
        with pytest.raises(CorefileInvalid, match=name):
            read_corefile(f".:53 {{\n    {name}\n}}\n", DnsConfig(), Sources())


def test_the_corefile_of_the_chart_is_accepted() -> None:
    config, remarks = read_corefile(CHART_COREFILE, DnsConfig(), Sources())
    assert (config.zone, config.lameduck_seconds) == (ZoneSettings("cluster.local", "insecure", 30), 10)
    assert not remarks


def test_each_field_of_metallbs_objects_is_in_the_table() -> None:
    fields = {
        f"{kind.__name__}.{field.encode_name}"
        for kind, spec in (
            (metallb.IPAddressPool, metallb.IPAddressPoolSpec),
            (metallb.L2Advertisement, metallb.L2AdvertisementSpec),
            (metallb.BGPAdvertisement, metallb.BGPAdvertisementSpec),
            (metallb.Community, metallb.CommunitySpec),
            (metallb.BGPPeer, metallb.BGPPeerSpec),
            (metallb.BFDProfile, metallb.BFDProfileSpec),
        )
        for field in msgspec.structs.fields(spec)
    }
    assert set(table("MetalLB's objects")) == fields
