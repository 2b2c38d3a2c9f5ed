"""KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1): the file that `bridgehead proxy --config` reads.

The command's options are fields of the same document (`with_field`). `warnings` names fields that have a value but no
effect; an invalid field raises ConfigInvalid.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import copy
import ipaddress
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridgehead import KUBERNETES_VERSION
from bridgehead.suggestions import did_you_mean

from .address_texts import family_of
from .config_reader import (
    MAX_INT32,
    POSITIVE,
    Section,
    defaults_of,
    flag,
    invalid,
    is_unset,
    number,
    parse_cidrs,
    read,
    seconds,
    setting,
)
from .errors import ConfigInvalid

DEFAULT_MODE = "nftables"
API_VERSION, KIND = "kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration"
MODES = ("iptables", "ipvs", "nftables", "userspace")
IPVS_SCHEDULERS = ("rr", "wrr", "lc", "wlc", "dh", "sh", "sed", "nq", "mh", "lblc", "lblcr")
DETECT_LOCAL_MODES = ("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")


def _scheduler(section: Section, name: str) -> str:
    scheduler = section.text(name, "rr")
    if scheduler not in IPVS_SCHEDULERS:
        known = f"{', '.join(IPVS_SCHEDULERS)} are{did_you_mean(scheduler, IPVS_SCHEDULERS)}"
        raise ConfigInvalid(f"ipvs.scheduler: {scheduler!r} is no scheduler; {known}")
    return scheduler


@dataclass(frozen=True)
class IpvsOptions:
    """The section `ipvs` without its periods. Timeouts are whole seconds; 0 keeps the kernel's value."""

    scheduler: str = setting("scheduler", "", "rr", _scheduler)
    # Virtual servers of other programs at these addresses are not removed.
    exclude_cidrs: tuple[str, ...] = setting("excludeCIDRs", [], (), Section.cidrs)
    strict_arp: bool = flag("strictARP")
    tcp_timeout: int = seconds("tcpTimeout", "0s")
    tcp_fin_timeout: int = seconds("tcpFinTimeout", "0s")
    udp_timeout: int = seconds("udpTimeout", "0s")


@dataclass(frozen=True)
class ConntrackOptions:
    """The section `conntrack`. Timeouts are whole seconds; 0 keeps the kernel's value."""

    max_per_core: int = number("maxPerCore", 32768, 0, MAX_INT32)
    min: int = number("min", 131072, 0, MAX_INT32)
    tcp_established_timeout: int = seconds("tcpEstablishedTimeout", "24h0m0s")
    tcp_close_wait_timeout: int = seconds("tcpCloseWaitTimeout", "1h0m0s")
    tcp_be_liberal: bool = flag("tcpBeLiberal")
    udp_timeout: int = seconds("udpTimeout", "0s")
    udp_stream_timeout: int = seconds("udpStreamTimeout", "0s")


_PERIODS = {"minSyncPeriod": "0s", "syncPeriod": "30s"}
_MASQUERADING = {"masqueradeAll": False, "masqueradeBit": 14}

# The configuration without a file; `--write-config-to` writes it.
DEFAULTS: Mapping[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "bindAddress": "0.0.0.0",
    "bindAddressHardFail": False,
    "clientConnection": {"burst": 10, "kubeconfig": "", "qps": 5},
    "clusterCIDR": "",
    "configSyncPeriod": "15m0s",
    "conntrack": defaults_of(ConntrackOptions),
    "detectLocal": {"bridgeInterface": "", "interfaceNamePrefix": ""},
    "detectLocalMode": "ClusterCIDR",
    "healthzBindAddress": "0.0.0.0:10256",
    "hostnameOverride": "",
    "iptables": {"localhostNodePorts": True, **_MASQUERADING, **_PERIODS},
    "ipvs": dict(sorted({**defaults_of(IpvsOptions), **_PERIODS}.items())),
    "metricsBindAddress": "127.0.0.1:10249",
    "mode": "",
    "nftables": {**_MASQUERADING, **_PERIODS},
    "nodePortAddresses": [],
    "oomScoreAdj": -999,
}

# Fields of KubeProxyConfiguration that are accepted without effect, and why; a warning names those that are set to
# something else than kube-proxy's default.
WITHOUT_EFFECT: Mapping[str, str] = {
    "clientConnection.acceptContentTypes": "the client chooses the format itself",
    "clientConnection.burst": "the client's few writes are not limited",
    "clientConnection.contentType": "the client chooses the format itself",
    "clientConnection.qps": "the client's few writes are not limited",
    "configSyncPeriod": "there are no resyncs after the first list",
    "logging.flushFrequency": "logs are not buffered",
    "logging.options": "logs are lines on standard error",
    "windowsRunAsService": "it is for nodes with Windows",
    "winkernel": "it is for nodes with Windows",
}
# Values that kube-proxy writes for these fields when they are not set.
_UNSET: Mapping[str, tuple[object, ...]] = {
    "clientConnection.burst": (10,),
    "clientConnection.contentType": ("application/vnd.kubernetes.protobuf",),
    "clientConnection.qps": (5,),
    "configSyncPeriod": ("15m0s", "15m"),
    "logging.flushFrequency": ("5s", 5_000_000_000),
    "logging.options": (
        {"json": {"infoBufferSize": "0"}, "text": {"infoBufferSize": "0"}},
        {"json": {"infoBufferSize": "0"}},
    ),
}

# The kernel's timeout of unanswered UDP flows (nf_conntrack_udp_timeout). kube-proxy's userspace mode had 250 ms, which
# loses every later answer.
UDP_IDLE_SECONDS = 30.0


@dataclass(frozen=True)
class ProxyConfig:
    """All fields that have an effect. Periods are seconds; a bind address is (host, port), None: do not serve."""

    mode: str = DEFAULT_MODE  # or any other text, which is no mode
    kubeconfig: str = ""
    hostname_override: str = ""
    bind_address: str = ""  # this node's primary address; "": the address of its Node object
    is_bind_failure_fatal: bool = False
    cluster_cidrs: tuple[str, ...] = ()
    detect_local_mode: str = "ClusterCIDR"
    pod_interface: str = ""  # the interface of this node's pods; a trailing * matches a prefix
    node_port_addresses: tuple[str, ...] = ("primary",)  # or CIDRs; (): every address but loopback
    localhost_node_ports: bool = False  # node ports answer on 127.0.0.1 as well
    masquerade_all: bool = False
    masquerade_bit: int = 14
    sync_period: float = 30.0
    min_sync_period: float = 0.0
    healthz: tuple[str, int] | None = ("0.0.0.0", 10256)
    metrics: tuple[str, int] | None = ("127.0.0.1", 10249)
    udp_idle_seconds: float = UDP_IDLE_SECONDS  # idle timeout of a UDP session in mode userspace
    ipvs: IpvsOptions = IpvsOptions()
    conntrack: ConntrackOptions = ConntrackOptions()
    host_ports: bool = False  # map the host ports of this node's pods; no field, only an option of the command
    oom_score_adj: int = -999  # of this process: the OOM killer ends it and the kubelet last
    verbosity: int = 0
    warnings: tuple[str, ...] = ()


def parse_config(document: object, mode: str = "") -> ProxyConfig:
    """Read the parsed YAML or JSON of a KubeProxyConfiguration. `mode` overrides its own. Raises ConfigInvalid."""
    if not isinstance(document, dict):
        raise ConfigInvalid("the configuration is not a KubeProxyConfiguration")
    if document.get("kind") != KIND:
        raise ConfigInvalid(f"kind: {document.get('kind')!r}, expected {KIND}")
    if document.get("apiVersion") != API_VERSION:
        raise ConfigInvalid(f"apiVersion: {document.get('apiVersion')!r}, expected {API_VERSION}")
    root = Section(document)
    root.skip("apiVersion", "kind", *(name for name in WITHOUT_EFFECT if "." not in name))
    root.seconds("configSyncPeriod", 0.0, below_zero=POSITIVE)
    wanted = mode or root.text("mode", DEFAULT_MODE)
    mode = settings_of(wanted)
    own = root.section(mode)
    masquerading = own
    if mode == "ipvs":  # as in kube-proxy, where this mode uses iptables to masquerade
        masquerading = root.section("iptables")
        masquerading.skip("localhostNodePorts", "minSyncPeriod", "syncPeriod")
    root.skip("mode", *(name for name in MODES if name != mode))  # the sections of other modes have no effect
    client = root.section("clientConnection")
    client.number("burst", 0, 0, MAX_INT32)
    client.skip("acceptContentTypes", "contentType", "qps")
    _check_hidden_metrics(root)
    logging = root.section("logging")
    logging.skip("flushFrequency", "options")
    if logging.text("format", "text") != "text":
        raise ConfigInvalid("logging.format: logs are text; leave it out")
    detect_local_mode, pod_interface = _detect_local(root)
    default = ProxyConfig()
    node_port_addresses = _node_port_addresses(root, mode)
    bind_address = root.address("bindAddress")
    everywhere, loopback = ("::", "::1") if ":" in bind_address else ("0.0.0.0", "127.0.0.1")
    config = ProxyConfig(
        mode=wanted,
        kubeconfig=client.text("kubeconfig"),
        hostname_override=root.text("hostnameOverride"),
        bind_address=_specified(bind_address),
        is_bind_failure_fatal=root.flag("bindAddressHardFail"),
        cluster_cidrs=_cluster_cidrs(root, detect_local_mode),
        detect_local_mode=detect_local_mode,
        pod_interface=pod_interface,
        node_port_addresses=node_port_addresses,
        localhost_node_ports=(
            mode == "iptables" and own.flag("localhostNodePorts", default=True) and _has_loopback(node_port_addresses)
        ),
        masquerade_all=masquerading.flag("masqueradeAll"),
        masquerade_bit=masquerading.number("masqueradeBit", default.masquerade_bit, 0, 31),
        sync_period=own.seconds("syncPeriod", 0.0, below_zero=POSITIVE) or default.sync_period,
        min_sync_period=own.seconds("minSyncPeriod", 0.0),
        healthz=root.bind_address("healthzBindAddress", (everywhere, 10256)),
        metrics=root.bind_address("metricsBindAddress", (loopback, 10249)),
        udp_idle_seconds=root.seconds("udpIdleTimeout", 0.0) or default.udp_idle_seconds,
        ipvs=read(IpvsOptions, own) if mode == "ipvs" else default.ipvs,
        conntrack=read(ConntrackOptions, root.section("conntrack")),
        oom_score_adj=root.number("oomScoreAdj", default.oom_score_adj, -1000, 1000),
        verbosity=logging.number("verbosity", 0, 0, MAX_INT32),
    )
    if config.min_sync_period > config.sync_period:  # /livez would report the pause between two changes as a failure
        limit = f"must be greater than or equal to {mode}.minSyncPeriod, {config.min_sync_period:g}s"
        raise invalid(f"{mode}.syncPeriod", f"{config.sync_period:g}s", limit)
    warnings = (*(f"{name} is not used" for name in root.unread()), *_warnings_without_effect(document))
    return ProxyConfig(**{**vars(config), "warnings": warnings})


def _warnings_without_effect(document: Mapping[str, Any]) -> Iterator[str]:
    for name, reason in WITHOUT_EFFECT.items():
        value: Any = document
        for key in name.split("."):
            value = (value or {}).get(key)
        if not is_unset(value) and value not in _UNSET.get(name, ()):
            yield f"{name} is not used: {reason}"


def in_use(document: Mapping[str, Any], mode: str, node_name: str) -> dict[str, Any]:
    """Return the document with the defaults of absent fields, and with the mode and the node name in use."""
    defaults = copy.deepcopy(dict(DEFAULTS))
    if ":" in str(document.get("bindAddress") or ""):
        defaults |= {"healthzBindAddress": "[::]:10256", "metricsBindAddress": "[::1]:10249"}
    found = {**defaults, **document, "mode": mode, "hostnameOverride": node_name}
    for name, value in DEFAULTS.items():
        if isinstance(value, Mapping):
            found[name] = {**value, **(document.get(name) or {})}
    return found


def settings_of(mode: str) -> str:
    """Return the mode whose section and defaults apply to a mode of this name: the default's, if there is none."""
    return mode if mode in MODES else DEFAULT_MODE


def require_mode(text: str) -> None:
    """Raise ConfigInvalid unless the text is the name of a mode or "".

    The command line alone is checked: a configuration that many nodes share must not stop their proxies, which serve in
    another mode (`mode_choice.py`).
    """
    if text and text not in MODES:
        why = f"must be {', '.join(MODES)} or blank (blank means the best-available proxy [currently {DEFAULT_MODE}])"
        raise invalid("mode", text, f"{why}{did_you_mean(text[:20], MODES)}")


def with_field(document: Mapping[str, Any], field: str, value: object) -> dict[str, Any]:
    """Return the document with another value of a field such as `iptables.syncPeriod`."""
    changed = copy.deepcopy(dict(document))
    section: Any = changed
    *path, last = field.split(".")
    for name in path:
        if not isinstance(section.setdefault(name, {}), dict):  # `parse_config` reports it
            section[name] = {}
        section = section[name]
    section[last] = value
    return changed


def _detect_local(root: Section) -> tuple[str, str]:
    mode = root.text("detectLocalMode", "ClusterCIDR")
    if mode not in DETECT_LOCAL_MODES:
        supported = ", ".join(f'"{name}"' for name in DETECT_LOCAL_MODES)
        text = f"detectLocalMode: Unsupported value: {json.dumps(mode[:80])}: supported values: {supported}"
        raise ConfigInvalid(f"{text}{did_you_mean(mode[:40], DETECT_LOCAL_MODES)}")
    section = root.section("detectLocal")
    bridge, prefix = section.text("bridgeInterface"), section.text("interfaceNamePrefix")
    field, name = {
        "BridgeInterface": ("bridgeInterface", bridge),
        "InterfaceNamePrefix": ("interfaceNamePrefix", prefix),
    }.get(mode, ("", ""))
    if not field:
        return mode, ""
    if not name:
        raise invalid(f"detectLocal.{field}", name, "must not be empty")
    if not re.fullmatch(r"[A-Za-z0-9._@-]{1,15}", name):
        raise invalid(f"detectLocal.{field}", name, f"must be the name of an interface, which {mode} needs")
    return mode, name if mode == "BridgeInterface" else f"{name}*"


def _cluster_cidrs(root: Section, detect_local_mode: str) -> tuple[str, ...]:
    text = root.text("clusterCIDR")
    if detect_local_mode != "ClusterCIDR":  # not used
        return ()
    ranges = parse_cidrs("clusterCIDR", text)
    if len(ranges) > 2 or len(set(map(family_of, ranges))) < len(ranges):
        why = "must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]"
        raise invalid("clusterCIDR", text, why)
    return ranges


def _check_hidden_metrics(root: Section) -> None:
    """Check the release whose hidden metrics to show: the previous one only. There are none here."""
    text = root.text("showHiddenMetricsForVersion")
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    previous = f"{major}.{int(minor) - 1}"
    if text and text != previous:
        why = f"must be omitted or have the value '{previous}'. Only the previous minor version is allowed"
        raise invalid("showHiddenMetricsForVersion", text, f"--show-hidden-metrics-for-version {why}")


def _node_port_addresses(root: Section, mode: str) -> tuple[str, ...]:
    texts = root.texts("nodePortAddresses")
    if texts == ["primary"]:
        return ("primary",)
    if "primary" in texts:
        raise invalid(f"nodePortAddresses[{texts.index('primary')}]", "primary", "can't use both 'primary' and CIDRs")
    # The nftables mode has a safer default than the older modes (KEP-3866).
    return root.cidrs("nodePortAddresses") or (("primary",) if mode == "nftables" else ())


def _has_loopback(node_port_addresses: Sequence[str]) -> bool:
    """Return whether node ports use 127.0.0.1, so that the kernel must route there (route_localnet, CVE-2020-8558)."""
    if node_port_addresses == ("primary",):
        return False
    ranges = [ipaddress.ip_network(cidr) for cidr in node_port_addresses if family_of(cidr) == 4]
    return not ranges or any(ipaddress.ip_address("127.0.0.1") in range_ for range_ in ranges)


def _specified(address: str) -> str:
    return "" if address in ("0.0.0.0", "::") else address
