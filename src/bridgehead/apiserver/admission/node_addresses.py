"""Refusal of load balancer addresses that belong to a node or to the API server (CVE-2020-8554).

A Service with such an address in its status would take over that traffic. The store is read only when a status has a
new address.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridgehead.apiserver.errors import invalid
from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.services import added_addresses
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import parse_ip
from bridgehead.storage import Key, Store

from .attributes import UPDATE, Attributes
from .chain import Plugin

_API_SERVER = Key("endpoints", "default", "kubernetes")


class _Address(msgspec.Struct, frozen=True):
    address: str = ""
    ip: str = ""


class _NodeStatus(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    """The addresses of a Node. The decoder skips its other fields."""

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
    """Return an error for each new address in the status of `service` that belongs to a node or to the API server."""
    added = [one for one in added_addresses(service, old) if one.is_vip]
    if not added:
        return []
    wanted = {parse_ip(one.text): one for one in added}
    errors = []
    for text, owner in _own_addresses(store):
        address = wanted.get(parse_ip(text))
        if address is not None:
            detail = f"may not be the address of {owner}, which the Service would take over"
            errors.append(field.invalid(address.path, address.text, detail))
    return errors


def _own_addresses(store: Store) -> Iterator[tuple[str, str]]:
    """Yield addresses, each with a description of its owner for error texts."""
    api = store.get(_API_SERVER)
    if api is not None:
        for subset in _decode_endpoints(api.value).subsets:
            yield from ((one.ip, "the API server") for one in subset.addresses)
    for record in store.list("nodes"):
        for one in _decode_node(record.value).status.addresses:
            yield one.address, f"node {record.key.name}"
