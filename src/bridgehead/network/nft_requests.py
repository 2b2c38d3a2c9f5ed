"""Requests of nf_tables: tables, chains, rules, sets, and the expressions of which rules consist.

`untracked`, `spoofing`, `handover_tables`, `connection_search` and `flow_trace` build their tables with them. All need
tables that the kernel removes with their owner (`flags owner`, Linux 5.12), made through a socket that the owner keeps
open, not by the command `nft`. Source: linux/netfilter/nf_tables.h, which `nft` here stands for.
"""

from __future__ import annotations

import errno
import struct
from typing import Final

from .netlink_attributes import attribute, be32, nest, text
from .netlink_socket import NetlinkSocket, Request, netfilter_header
from .uapi import nf_tables as nft
from .uapi.netlink import NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES

_REGISTER: Final = nft.NFT_REG_1  # through which expressions of a rule pass values, by default
_MISSING: Final = bytes(4)  # what the expression fib loads without such a route


def request(message: int, flags: int, family: int, body: bytes, name: str) -> Request:
    """Return a request: `message` is NFT_MSG_*, `family` NFPROTO_*."""
    return Request(NFNL_SUBSYS_NFTABLES << 8 | message, flags, netfilter_header(family) + body, name)


def add_table(family: int, name: str, *, is_owned: bool) -> Request:
    """Add a table. An owned one is removed by the kernel when the socket closes; no other process can change it."""
    flags = be32(nft.NFTA_TABLE_FLAGS, nft.NFT_TABLE_F_OWNER) if is_owned else b""
    body = text(nft.NFTA_TABLE_NAME, name) + flags
    return request(nft.NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL, family, body, f"add table {name}")


def add_set(
    family: int,
    table: str,
    name: str,
    kind: int,
    size: int,
    *,
    identity: int,
    seconds: float = 0,
    most: int = 0,
    is_map: bool = False,
) -> Request:
    """Add a set with keys of `size` bytes, which nft shows as `kind` (TYPE_*); or a map to values of that kind.

    `seconds`: after which elements expire (0: never). `most`: how many elements rules may add (0: none). `identity`: a
    number that no other set of the transaction has.
    """
    flags = (nft.NFT_SET_TIMEOUT if seconds else 0) | (nft.NFT_SET_EVAL if most else 0)
    flags |= nft.NFT_SET_MAP if is_map else 0
    body = (
        text(nft.NFTA_SET_TABLE, table)
        + text(nft.NFTA_SET_NAME, name)
        + be32(nft.NFTA_SET_FLAGS, flags)
        + be32(nft.NFTA_SET_KEY_TYPE, kind)
        + be32(nft.NFTA_SET_KEY_LEN, size)
        + be32(nft.NFTA_SET_ID, identity)
    )
    if is_map:
        body += be32(nft.NFTA_SET_DATA_TYPE, kind) + be32(nft.NFTA_SET_DATA_LEN, size)
    if most:
        body += nest(nft.NFTA_SET_DESC, be32(nft.NFTA_SET_DESC_SIZE, most))
    if seconds:
        body += attribute(nft.NFTA_SET_TIMEOUT, struct.pack("!Q", int(seconds * 1000)))
    return request(nft.NFT_MSG_NEWSET, NLM_F_CREATE, family, body, f"add set {name}")


def add_element(family: int, table: str, set_name: str, key: bytes, value: bytes = b"") -> Request:
    """Add an element to a set, or with a value to a map."""
    body = _element(table, set_name, key, value)
    return request(nft.NFT_MSG_NEWSETELEM, NLM_F_CREATE, family, body, f"add an element to {set_name}")


def delete_element(family: int, table: str, set_name: str, key: bytes) -> Request:
    """Delete an element of a set."""
    body = _element(table, set_name, key)
    return request(nft.NFT_MSG_DELSETELEM, 0, family, body, f"delete an element of {set_name}")


def _element(table: str, set_name: str, key: bytes, value: bytes = b"") -> bytes:
    content = nest(nft.NFTA_SET_ELEM_KEY, attribute(nft.NFTA_DATA_VALUE, key))
    if value:
        content += nest(nft.NFTA_SET_ELEM_DATA, attribute(nft.NFTA_DATA_VALUE, value))
    element = nest(nft.NFTA_LIST_ELEM, content)
    return (
        text(nft.NFTA_SET_ELEM_LIST_TABLE, table)
        + text(nft.NFTA_SET_ELEM_LIST_SET, set_name)
        + nest(nft.NFTA_SET_ELEM_LIST_ELEMENTS, element)
    )


def add_base_chain(family: int, table: str, chain: str, hook: int, priority: int) -> Request:
    """Add a base chain of type filter with policy accept. `hook`: NF_INET_*."""
    hooked = be32(nft.NFTA_HOOK_HOOKNUM, hook) + attribute(nft.NFTA_HOOK_PRIORITY, struct.pack("!i", priority))
    body = (
        text(nft.NFTA_CHAIN_TABLE, table)
        + text(nft.NFTA_CHAIN_NAME, chain)
        + nest(nft.NFTA_CHAIN_HOOK, hooked)
        + text(nft.NFTA_CHAIN_TYPE, "filter")
    )
    return request(nft.NFT_MSG_NEWCHAIN, NLM_F_CREATE, family, body, f"add chain {chain}")


def add_rule(family: int, table: str, chain: str, expressions: bytes) -> Request:
    """Append a rule to its chain."""
    body = text(nft.NFTA_RULE_TABLE, table) + text(nft.NFTA_RULE_CHAIN, chain)
    body += nest(nft.NFTA_RULE_EXPRESSIONS, expressions)
    return request(nft.NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, family, body, f"add rule to {chain}")


def delete_rules(family: int, table: str, chain: str) -> Request:
    """Delete all rules of a chain."""
    body = text(nft.NFTA_RULE_TABLE, table) + text(nft.NFTA_RULE_CHAIN, chain)
    return request(nft.NFT_MSG_DELRULE, 0, family, body, f"delete the rules of {chain}")


def remove_table(netlink: NetlinkSocket, family: int, name: str) -> None:
    """Remove a table; an absent one is success. Raises OSError, with EPERM when another process owns it."""
    removal = request(nft.NFT_MSG_DELTABLE, 0, family, text(nft.NFTA_TABLE_NAME, name), f"remove table {name}")
    try:
        netlink.transact(NFNL_SUBSYS_NFTABLES, [removal])
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


# --- Expressions ------------------------------------------------------------------------------------------------
# They load a value into the register, and compare, look up or store what is in the register.


def expression(name: str, data: bytes) -> bytes:
    return nest(nft.NFTA_LIST_ELEM, text(nft.NFTA_EXPR_NAME, name) + nest(nft.NFTA_EXPR_DATA, data))


def meta(key: int, register: int = _REGISTER) -> bytes:
    """Load a property of the packet (NFT_META_*)."""
    return expression("meta", be32(nft.NFTA_META_DREG, register) + be32(nft.NFTA_META_KEY, key))


def set_meta(key: int) -> bytes:
    """Write the register to a property of the packet (NFT_META_*)."""
    return expression("meta", be32(nft.NFTA_META_SREG, _REGISTER) + be32(nft.NFTA_META_KEY, key))


def payload(base: int, offset: int, length: int, register: int = _REGISTER) -> bytes:
    """Load `length` bytes of the packet, `offset` bytes after `base` (NFT_PAYLOAD_*)."""
    data = (
        be32(nft.NFTA_PAYLOAD_DREG, register)
        + be32(nft.NFTA_PAYLOAD_BASE, base)
        + be32(nft.NFTA_PAYLOAD_OFFSET, offset)
        + be32(nft.NFTA_PAYLOAD_LEN, length)
    )
    return expression("payload", data)


def set_payload(base: int, offset: int, length: int) -> bytes:
    """Write the register to the packet, without a change of checksums; arguments as those of `payload`."""
    data = (
        be32(nft.NFTA_PAYLOAD_SREG, _REGISTER)
        + be32(nft.NFTA_PAYLOAD_BASE, base)
        + be32(nft.NFTA_PAYLOAD_OFFSET, offset)
        + be32(nft.NFTA_PAYLOAD_LEN, length)
    )
    return expression("payload", data)


def register_after(size: int) -> int:
    """Return the register for the next field of a key whose fields before have `size` bytes, a multiple of 4."""
    return nft.NFT_REG32_00 + size // 4


def masked(mask: bytes) -> bytes:
    """Keep only the bits of `mask`."""
    data = (
        be32(nft.NFTA_BITWISE_SREG, _REGISTER)
        + be32(nft.NFTA_BITWISE_DREG, _REGISTER)
        + be32(nft.NFTA_BITWISE_LEN, len(mask))
        + nest(nft.NFTA_BITWISE_MASK, attribute(nft.NFTA_DATA_VALUE, mask))
        + nest(nft.NFTA_BITWISE_XOR, attribute(nft.NFTA_DATA_VALUE, bytes(len(mask))))
    )
    return expression("bitwise", data)


def compare(value: bytes, operator: int = nft.NFT_CMP_EQ) -> bytes:
    """End the rule unless the register compares to `value` so."""
    data = be32(nft.NFTA_CMP_SREG, _REGISTER) + be32(nft.NFTA_CMP_OP, operator)
    return expression("cmp", data + nest(nft.NFTA_CMP_DATA, attribute(nft.NFTA_DATA_VALUE, value)))


def is_in(set_name: str) -> bytes:
    """End the rule unless the set contains the register."""
    return expression("lookup", text(nft.NFTA_LOOKUP_SET, set_name) + be32(nft.NFTA_LOOKUP_SREG, _REGISTER))


def value_in(map_name: str) -> bytes:
    """Load the value of the register in a map; end the rule if the map does not contain it."""
    data = be32(nft.NFTA_LOOKUP_SREG, _REGISTER) + be32(nft.NFTA_LOOKUP_DREG, _REGISTER)
    return expression("lookup", text(nft.NFTA_LOOKUP_SET, map_name) + data)


def connection_state() -> bytes:
    """Load the bit of the packet's state in connection tracking."""
    return expression("ct", be32(nft.NFTA_CT_DREG, _REGISTER) + be32(nft.NFTA_CT_KEY, nft.NFT_CT_STATE))


def connection_direction() -> bytes:
    """Load the packet's direction in connection tracking: one byte, 0 (original) or 1 (reply)."""
    return expression("ct", be32(nft.NFTA_CT_DREG, _REGISTER) + be32(nft.NFTA_CT_KEY, nft.NFT_CT_DIRECTION))


def original_port(key: int) -> bytes:
    """Load a port of the connection's first packet: `key` is NFT_CT_PROTO_SRC or NFT_CT_PROTO_DST."""
    data = be32(nft.NFTA_CT_DREG, _REGISTER) + be32(nft.NFTA_CT_KEY, key) + attribute(nft.NFTA_CT_DIRECTION, b"\0")
    return expression("ct", data)


def duplicate() -> bytes:
    """Send a copy of the packet, untracked, to the neighbour whose address is in the register."""
    return expression("dup", be32(nft.NFTA_DUP_SREG_ADDR, _REGISTER))


def put_into(set_name: str, operation: int, state: bytes = b"") -> bytes:
    """Add the register to a set; NFT_DYNSET_OP_UPDATE also restarts the timeout of an element that exists.

    `state`: an expression such as `limit`, which each element has for itself. End the rule if the set is full.
    """
    data = (
        text(nft.NFTA_DYNSET_SET_NAME, set_name)
        + be32(nft.NFTA_DYNSET_OP, operation)
        + be32(nft.NFTA_DYNSET_SREG_KEY, _REGISTER)
    )
    if state:
        data += be32(nft.NFTA_DYNSET_FLAGS, nft.NFT_DYNSET_F_EXPR) + nest(nft.NFTA_DYNSET_EXPRESSIONS, state)
    return expression("dynset", data)


def limit(rate: int, *, is_over: bool = False) -> bytes:
    """End the rule for packets beyond `rate` per second, with a burst of a second's; `is_over`: for the others."""
    data = (
        attribute(nft.NFTA_LIMIT_RATE, struct.pack("!Q", rate))
        + attribute(nft.NFTA_LIMIT_UNIT, struct.pack("!Q", 1))
        + be32(nft.NFTA_LIMIT_BURST, rate)
        + be32(nft.NFTA_LIMIT_TYPE, nft.NFT_LIMIT_PKTS)
        + be32(nft.NFTA_LIMIT_FLAGS, nft.NFT_LIMIT_F_INV if is_over else 0)
    )
    return expression("limit", data)


def has_no_route_back() -> bytes:
    """`fib saddr . iif oif missing`: end the rule if the packet came from the interface that routes to its source."""
    flags = nft.NFTA_FIB_F_SADDR | nft.NFTA_FIB_F_IIF | nft.NFTA_FIB_F_PRESENT
    data = (
        be32(nft.NFTA_FIB_DREG, _REGISTER)
        + be32(nft.NFTA_FIB_RESULT, nft.NFT_FIB_RESULT_OIF)
        + be32(nft.NFTA_FIB_FLAGS, flags)
    )
    return expression("fib", data) + compare(_MISSING)


def constant(value: bytes) -> bytes:
    """Load a value."""
    data = nest(nft.NFTA_IMMEDIATE_DATA, attribute(nft.NFTA_DATA_VALUE, value))
    return expression("immediate", be32(nft.NFTA_IMMEDIATE_DREG, _REGISTER) + data)


def notrack() -> bytes:
    return expression("notrack", b"")


def counter() -> bytes:
    return expression("counter", b"")


def verdict(code: int) -> bytes:
    """End the chain with NF_DROP or another verdict."""
    data = nest(nft.NFTA_DATA_VERDICT, be32(nft.NFTA_VERDICT_CODE, code))
    return expression(
        "immediate", be32(nft.NFTA_IMMEDIATE_DREG, nft.NFT_REG_VERDICT) + nest(nft.NFTA_IMMEDIATE_DATA, data)
    )
