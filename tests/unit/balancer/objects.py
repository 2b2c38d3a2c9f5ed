"""Objects that configure the balancer, written shortly for tables."""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.balancer.configuration import ConfigurationObjects, NodeFacts
from bridgehead.objects import metallb, openelb
from bridgehead.objects.core import ConfigMap

NAMESPACE = "metallb-system"
_FIELDS = {
    "IPAddressPool": ("pools", metallb.IPAddressPool),
    "L2Advertisement": ("layer2_advertisements", metallb.L2Advertisement),
    "BGPAdvertisement": ("bgp_advertisements", metallb.BGPAdvertisement),
    "BGPPeer": ("peers", metallb.BGPPeer),
    "BFDProfile": ("bfd_profiles", metallb.BFDProfile),
    "Community": ("communities", metallb.Community),
    "Eip": ("eips", openelb.Eip),
    "BgpConf": ("bgp_confs", openelb.BgpConf),
    "BgpPeer": ("openelb_peers", openelb.BgpPeer),
}


def obj(
    kind: str, name: str, /, *, annotations: Any = None, labels: Any = None, ns: str = NAMESPACE, **spec: Any
) -> Any:
    """Return one object; `spec` has the API's field names."""
    namespaced = kind not in ("Eip", "BgpConf", "BgpPeer")
    metadata = {"name": name, "uid": f"uid-{name}", "annotations": annotations or {}, "labels": labels or {}}
    if namespaced:
        metadata["namespace"] = ns
    return msgspec.convert({"metadata": metadata, "spec": spec}, _FIELDS[kind][1])


def pool(name: str, *addresses: str, **more: Any) -> Any:
    return obj("IPAddressPool", name, addresses=list(addresses), **more)


def eip(name: str, address: str, *, protocol: str = "layer2", default: bool = False, **more: Any) -> Any:
    annotations = {"eip.openelb.kubesphere.io/is-default-eip": "true"} if default else {}
    if protocol in ("layer2", "vip"):
        more.setdefault("interface", "eth0")
    return obj("Eip", name, address=address, protocol=protocol, annotations=annotations, **more)


def config_map(text: str) -> ConfigMap:
    metadata = {"name": "config", "namespace": NAMESPACE, "uid": "uid-config"}
    return msgspec.convert({"metadata": metadata, "data": {"config": text}}, ConfigMap)


def gather(*objects: Any, nodes: dict[str, NodeFacts] | None = None, **more: Any) -> ConfigurationObjects:
    fields: dict[str, list[Any]] = {}
    for found in objects:
        if isinstance(found, ConfigMap):
            more["config_map"] = found
        else:
            field = next(field for field, type_ in _FIELDS.values() if isinstance(found, type_))
            fields.setdefault(field, []).append(found)
    more |= {name: tuple(values) for name, values in fields.items()}
    return ConfigurationObjects(NAMESPACE, nodes=nodes or {}, **more)
