"""The nodes' and the API server's own addresses, which no Service may take over by its status (CVE-2020-8554).

The store is asked only when a status has an address that it had not before.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources import field
from bridgehead.apiserver.resources.addresses import parse_ip
from bridgehead.apiserver.resources.service_ingress import added_addresses
from bridgehead.storage import Key, Store

_API_SERVER = Key("endpoints", "default", "kubernetes")


class _Address(msgspec.Struct, frozen=True):
    address: str = ""
    ip: str = ""


class _NodeStatus(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    """Of a Node its addresses only: what else it has is skipped, not decoded."""

    status: _NodeStatus = _NodeStatus()


class _Subset(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] = ()


class _Endpoints(msgspec.Struct, frozen=True):
    subsets: tuple[_Subset, ...] = ()


_decode_node = msgspec.json.Decoder(_Node).decode
_decode_endpoints = msgspec.json.Decoder(_Endpoints).decode


def check_captured(store: Store, service: JsonObject, old: JsonObject) -> list[FieldError]:
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
    """Each with the words for whose it is."""
    api = store.get(_API_SERVER)
    if api is not None:
        for subset in _decode_endpoints(api.value).subsets:
            yield from ((one.ip, "the API server") for one in subset.addresses)
    for record in store.list("nodes"):
        for one in _decode_node(record.value).status.addresses:
            yield one.address, f"node {record.key.name}"
