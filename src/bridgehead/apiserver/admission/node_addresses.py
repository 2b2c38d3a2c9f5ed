"""Refusal of load balancer addresses that belong to a node, to its pods or to the API server (CVE-2020-8554).

A Service with such an address in its status would take over that traffic. The store is read only when a status has a
new address.
"""

from __future__ import annotations

import contextlib
import ipaddress
from typing import Any

import msgspec

from bridgehead.apiserver.errors import invalid
from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.services import added_addresses
from bridgehead.apiserver.resources.shared.address_rules import parse_ip
from bridgehead.storage import Key, Store

from .attributes import UPDATE, Attributes
from .chain import Plugin

_API_SERVER = Key("endpoints", "default", "kubernetes")


class _Address(msgspec.Struct, frozen=True):
    address: str = ""
    ip: str = ""


class _NodeStatus(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] = ()


class _NodeSpec(msgspec.Struct, frozen=True):
    pod_cidrs: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")


class _Node(msgspec.Struct, frozen=True):
    """The addresses of a Node and of its pods. The decoder skips its other fields."""

    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class _Subset(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] = ()


class _Endpoints(msgspec.Struct, frozen=True):
    subsets: tuple[_Subset, ...] = ()


_decode_node = msgspec.json.Decoder(_Node).decode
_decode_endpoints = msgspec.json.Decoder(_Endpoints).decode


class NodeAddresses(Plugin):
    """Admission of changes of a Service's status."""

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        return attributes.resource.id == "services" and attributes.operation == UPDATE

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        if errors := check_node_addresses(self._store, obj, old):
            raise invalid("", "Service", attributes.name, errors)


def check_node_addresses(store: Store, service: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return an error for each new address in the status of `service` that a node, a pod or the API server has."""
    root = Field(service)
    added = [ip for ip, is_vip in added_addresses(root, old) if is_vip]
    if not added:
        return []
    owned, pods = _owners(store)
    for ip in added:
        address = parse_ip(ip.value)
        if address is None:
            continue
        owner = owned.get(address) or next((f"a pod of {node}" for cidr, node in pods if address in cidr), None)
        if owner is not None:
            ip.invalid(f"may not be the address of {owner}, which the Service would take over")
    return root.errors


def _owners(store: Store) -> tuple[dict[Any, str], list[tuple[Any, str]]]:
    """Return the owners of addresses by address, and the nodes of the ranges of pods, described for error texts."""
    owned: dict[Any, str] = {}
    pods: list[tuple[Any, str]] = []
    api = store.get(_API_SERVER)
    if api is not None:
        for subset in _decode_endpoints(api.value).subsets:
            owned |= {parse_ip(one.ip): "the API server" for one in subset.addresses}
    for record in store.list("nodes"):
        node, name = _decode_node(record.value), f"node {record.key.name}"
        for one in node.status.addresses:
            owned.setdefault(parse_ip(one.address), name)
        for text in node.spec.pod_cidrs:
            with contextlib.suppress(ValueError):
                pods.append((ipaddress.ip_network(text, strict=False), name))
    return owned, pods
