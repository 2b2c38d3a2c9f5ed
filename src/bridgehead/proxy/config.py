"""KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1): the file that `bridgehead proxy --config` reads. Pure.

Fields that are not used here are named in `warnings` when they ask for something; fields that are wrong raise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ConfigInvalid
from .frontends import canonical_address, canonical_cidr

MODES = ("", "iptables", "nftables")  # those that work; "" is the default, nftables
KNOWN_MODES = ("", "iptables", "ipvs", "nftables", "userspace", "kernelspace")


@dataclass(frozen=True)
class ProxyConfig:
    """Every field that is used. Periods are seconds; a bind address is (host, port), None for "do not serve"."""

    mode: str = "nftables"
    kubeconfig: str = ""
    hostname_override: str = ""
    cluster_cidrs: tuple[str, ...] = ()
    detect_local_mode: str = "ClusterCIDR"  # or NodeCIDR
    node_port_addresses: tuple[str, ...] = ()  # CIDRs, or the one word "primary"; () is every address but loopback
    masquerade_all: bool = False
    sync_period: float = 30.0
    min_sync_period: float = 0.0
    healthz: tuple[str, int] | None = ("0.0.0.0", 10256)
    metrics: tuple[str, int] | None = ("127.0.0.1", 10249)
    warnings: tuple[str, ...] = ()


# Read by `parse_config`; a dictionary names the fields of a section.
_USED: dict[str, Any] = {
    "apiVersion": None,
    "kind": None,
    "mode": None,
    "clientConnection": {"kubeconfig": None},
    "hostnameOverride": None,
    "clusterCIDR": None,
    "detectLocalMode": None,
    "nodePortAddresses": None,
    "bindAddress": None,
    "healthzBindAddress": None,
    "metricsBindAddress": None,
}
_OF_A_MODE = {"masqueradeAll": None, "syncPeriod": None, "minSyncPeriod": None}  # each mode has a section of its own
# Sections of other modes say nothing to this one; the rest of these only tune the Go program.
_OF_OTHERS = frozenset(("iptables", "ipvs", "nftables", "winkernel", "logging", "oomScoreAdj", "configSyncPeriod"))
_CLIENT_TUNING = frozenset(("acceptContentTypes", "burst", "contentType", "qps"))


def parse_config(document: object, mode: str = "") -> ProxyConfig:
    """Read the parsed YAML or JSON of a KubeProxyConfiguration. `mode` goes before its own. Raises ConfigInvalid."""
    if not isinstance(document, dict):
        raise ConfigInvalid("the configuration is not a KubeProxyConfiguration")
    if document.get("kind") != "KubeProxyConfiguration":
        raise ConfigInvalid(f"kind: {document.get('kind')!r}, expected KubeProxyConfiguration")
    if document.get("apiVersion") != "kubeproxy.config.k8s.io/v1alpha1":
        raise ConfigInvalid(f"apiVersion: {document.get('apiVersion')!r}, expected kubeproxy.config.k8s.io/v1alpha1")
    mode = parse_mode(mode or _text(document, "mode"))
    own = _section(document, mode)
    detect = _text(document, "detectLocalMode") or "ClusterCIDR"
    if detect not in ("ClusterCIDR", "NodeCIDR"):
        raise ConfigInvalid(f"detectLocalMode: {detect!r} is not supported; ClusterCIDR and NodeCIDR are")
    default = ProxyConfig()
    return ProxyConfig(
        mode=mode,
        kubeconfig=_text(_section(document, "clientConnection"), "kubeconfig"),
        hostname_override=_text(document, "hostnameOverride"),
        cluster_cidrs=parse_cidrs("clusterCIDR", _text(document, "clusterCIDR")),
        detect_local_mode=detect,
        node_port_addresses=_node_port_addresses(document.get("nodePortAddresses")),
        masquerade_all=_flag(own, "masqueradeAll"),
        sync_period=_duration(own, f"{mode}.syncPeriod", default.sync_period) or default.sync_period,
        min_sync_period=_duration(own, f"{mode}.minSyncPeriod", 0.0),
        healthz=parse_bind_address("healthzBindAddress", _text(document, "healthzBindAddress"), default.healthz),
        metrics=parse_bind_address("metricsBindAddress", _text(document, "metricsBindAddress"), default.metrics),
        warnings=tuple(_unused(document, _USED | {mode: _OF_A_MODE}, "")),
    )


def parse_mode(text: str) -> str:
    """The name of a mode that works. Raises ConfigInvalid."""
    if text not in KNOWN_MODES:
        raise ConfigInvalid(f"mode: {text!r} is no proxy mode; iptables and nftables are")
    if text not in MODES:
        raise ConfigInvalid(f"mode: {text!r} is not there yet; iptables and nftables are")
    return text or "nftables"


def parse_cidrs(field: str, text: str) -> tuple[str, ...]:
    """Comma-separated ranges, canonical. Raises ConfigInvalid."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        cidr = canonical_cidr(part)
        if cidr is None:
            raise ConfigInvalid(f"{field}: {part!r} is not a range of addresses such as 10.244.0.0/16")
        found.append(cidr)
    return tuple(found)


def parse_bind_address(field: str, text: str, default: tuple[str, int] | None) -> tuple[str, int] | None:
    """`address:port`, `[address]:port` or an address alone, which takes the default's port; port 0 does not serve."""
    if not text:
        return default
    host, colon, port = text.rpartition(":")
    if canonical_address(text) is not None or not colon:
        host, port = text, str(default[1]) if default is not None else "0"
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ConfigInvalid(f"{field}: {text!r} is not an address and a port")
    host = host.removeprefix("[").removesuffix("]")
    if host and canonical_address(host) is None:
        raise ConfigInvalid(f"{field}: {host!r} is not an address")
    return (host or "0.0.0.0", int(port)) if int(port) else None


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as 1m30s. Raises ValueError."""
    if text == "0":
        return 0.0
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(h|ms|us|µs|ns|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _node_port_addresses(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ConfigInvalid("nodePortAddresses: not a list of strings")
    if value == ["primary"]:
        return ("primary",)
    return parse_cidrs("nodePortAddresses", ",".join(value))


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigInvalid(f"{name}: not an object")
    return value


def _text(section: Mapping[str, Any], name: str) -> str:
    value = section.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigInvalid(f"{name}: {value!r} is not a string")
    return value


def _flag(section: Mapping[str, Any], name: str) -> bool:
    value = section.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ConfigInvalid(f"{name}: {value!r} is neither true nor false")
    return value


def _duration(section: Mapping[str, Any], field: str, default: float) -> float:
    value = section.get(field.rpartition(".")[2])
    if value is None:
        return default
    try:
        return parse_duration(str(value))
    except ValueError as error:
        raise ConfigInvalid(f"{field}: {error}") from error


def _unused(section: Mapping[str, Any], used: Mapping[str, Any], prefix: str) -> list[str]:
    """The fields that ask for something nobody here does."""
    found = []
    for name, value in section.items():
        if name in used:
            if isinstance(used[name], dict) and isinstance(value, dict):
                found += _unused(value, used[name], f"{name}.")
        elif not (_is_empty(value) or (not prefix and name in _OF_OTHERS) or name in _CLIENT_TUNING):
            found.append(f"{prefix}{name} is not used")
    return found


def _is_empty(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return value in (None, "", 0, False, [], "0s")
