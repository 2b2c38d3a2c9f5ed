"""Other programs' changes of our tables, as elements and chains, read from the kernel's notifications.

Pure: no I/O, no clock, no randomness.

`mode.py` calls it to repair exactly what was edited, whatever the size of the rest; `network/ruleset_events.py`
receives the notifications. The bytes are those of linux/netfilter/nf_tables.h: a key, or a value, is its fields one
after the other, each padded to four bytes; the declarations in `chains.py` define these fields.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from bridgehead.network.inet import PROTOCOL_NAMES
from bridgehead.network.netlink_attributes import each_attribute, parse_attributes, parse_text
from bridgehead.network.ruleset_events import RulesetChange
from bridgehead.network.uapi import nf_tables as nft
from bridgehead.network.uapi.netfilter import NF_ACCEPT, NF_DROP
from bridgehead.proxy.address_texts import Family

from .chains import CLIENTS, class_id, containers
from .render import EVERYTHING
from .transaction import Container

_FAMILIES: Final[Mapping[str, Family]] = {"ip": 4, "ip6": 6}
_ANONYMOUS: Final = "__"  # prefix of the names of sets and maps inside rules; they come and go with their rules
_PARTS: Final = {nft.NFTA_SET_ELEM_KEY, nft.NFTA_SET_ELEM_DATA, nft.NFTA_SET_ELEM_USERDATA}  # the last: a comment
_CATCHALL: Final = nft.NFT_SET_ELEM_CATCHALL.to_bytes(4, "big")
_VERDICTS: Final = {
    NF_DROP: "drop",
    NF_ACCEPT: "accept",
    nft.NFT_CONTINUE: "continue",
    nft.NFT_JUMP: "jump",
    nft.NFT_GOTO: "goto",
    nft.NFT_RETURN: "return",
}

_declaration = re.compile(r"(?:set|map) \S+ { type (?P<key>[^;:]*?)(?: : (?P<value>[^;:]*?))?;")


@dataclass
class Edits:
    """Edited elements and chains, and their state now.

    `elements`: container -> key -> value, None where there is no element any more. `chains`: whether each chain of
    which anything was changed exists.
    """

    elements: dict[Container, dict[str, str | None]] = field(default_factory=dict)
    chains: dict[tuple[Family, str], bool] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.elements or self.chains)


def parse_edits(notifications: Iterable[RulesetChange], table: str, families: Collection[Family]) -> Edits | None:
    """Return what the notifications change in their order. None: not only elements and chains, or unknown ones."""
    edits = Edits()
    for notification in notifications:
        family = _FAMILIES.get(notification.family)
        if notification.table != table or family is None or family not in families:
            continue
        if notification.chain:
            edits.chains[family, notification.chain] = not notification.is_deleted
        elif notification.container.startswith(_ANONYMOUS):
            continue
        elif notification.elements:
            if notification.container == CLIENTS:
                continue  # filled by the kernel; there is nothing to compare it with
            layout = _layouts(family).get(notification.container)
            if layout is None or not _record(edits, Container(family, notification.container), layout, notification):
                return None
        else:
            return None
    return edits


class _Layout(NamedTuple):
    """nft's types of the fields of a container's keys, and of its values: () for a verdict, None in a set."""

    key: tuple[str, ...]
    value: tuple[str, ...] | None


@lru_cache(maxsize=2)
def _layouts(family: Family) -> dict[str, _Layout]:
    found = {}
    for name, declaration in containers(family).items():
        if (types := _declaration.match(declaration)) is not None:
            value = types["value"]
            fields = None if value is None else () if value == "verdict" else tuple(value.split(" . "))
            found[name] = _Layout(tuple(types["key"].split(" . ")), fields)
    return found


def _record(edits: Edits, container: Container, layout: _Layout, notification: RulesetChange) -> bool:
    """Record the elements of one notification. Return False if one of them is of an unknown form."""
    for _, element in each_attribute(notification.elements):
        found = parse_attributes(element)
        flags = found.pop(nft.NFTA_SET_ELEM_FLAGS, None)
        if flags not in (None, _CATCHALL) or found.keys() - _PARTS:
            return False
        key: str | None = EVERYTHING
        if flags is None:
            key = _text(
                parse_attributes(found.get(nft.NFTA_SET_ELEM_KEY, b"")).get(nft.NFTA_DATA_VALUE, b""), layout.key
            )
        if key is None:
            return False
        value: str | None = None
        if not notification.is_deleted:
            value = _value(parse_attributes(found.get(nft.NFTA_SET_ELEM_DATA, b"")), layout.value)
            if value is None:
                return False
        edits.elements.setdefault(container, {})[key] = value
    return True


def _value(data: Mapping[int, bytes], fields: tuple[str, ...] | None) -> str | None:
    if fields is None:
        return ""
    if fields:
        return _text(data.get(nft.NFTA_DATA_VALUE, b""), fields)
    verdict = parse_attributes(data.get(nft.NFTA_DATA_VERDICT, b""))
    code = verdict.get(nft.NFTA_VERDICT_CODE, b"")
    name = _VERDICTS.get(struct.unpack("!i", code)[0]) if len(code) == 4 else None
    chain = parse_text(verdict.get(nft.NFTA_VERDICT_CHAIN, b""))
    return f"{name} {chain}" if name and chain else name


def _text(data: bytes, fields: tuple[str, ...]) -> str | None:
    """Return the fields as nft writes them. None: these are not the data's fields."""
    texts = []
    for kind in fields:
        size = 16 if kind == "ipv6_addr" else 4
        value, data = data[:size], data[size:]
        if len(value) < size:
            return None
        match kind:
            case "ipv4_addr":
                texts.append(str(IPv4Address(value)))
            case "ipv6_addr":
                texts.append(str(IPv6Address(value)))
            case "inet_proto":
                texts.append(PROTOCOL_NAMES.get(value[0], str(value[0])))
            case "inet_service":
                texts.append(str(int.from_bytes(value[:2], "big")))
            case "classid":
                texts.append(class_id(struct.unpack("=I", value)[0]))
            case _:
                return None
    return None if data else " . ".join(texts)
