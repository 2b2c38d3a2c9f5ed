"""Messages of nf_tables, encoded by hand: tables, chains, rules, and the expressions that rules are made of.

`untracked` and `spoofing` make their tables of them. The command `nft` would do, but a table that the kernel is to
remove with its owner (`flags owner`, Linux 5.12) has to be made through a socket that the owner keeps.
Source: linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import errno
import struct
from typing import Final

from .netlink import CREATE, EXCL, NF_TABLES, Netlink, Request, attribute, nest, text

NEWTABLE, DELTABLE, NEWCHAIN, NEWRULE, NEWSET, NEWSETELEM, DELSETELEM = 0, 2, 3, 6, 9, 12, 14  # NFT_MSG_*
INET, IPV4, ARP, IPV6 = 1, 2, 3, 10  # NFPROTO_*
PREROUTING, INPUT, OUTPUT = 0, 1, 3  # NF_INET_*; arp counts its own
ARP_INPUT: Final = 0  # NF_ARP_IN
PRIORITY_RAW_BEFORE_DEFRAG, PRIORITY_RAW, PRIORITY_FILTER = -450, -300, 0  # NF_IP_PRI_*
IIF, NFPROTO, L4PROTO, IIFGROUP = 4, 15, 16, 21  # NFT_META_*
NETWORK_HEADER, TRANSPORT_HEADER = 1, 2  # NFT_PAYLOAD_*_HEADER
EQUAL, NOT_EQUAL, LESS_OR_EQUAL, GREATER_OR_EQUAL = 0, 1, 3, 5  # NFT_CMP_*
DROP, ACCEPT = 0, 1  # NF_*
IFINDEX_TYPE, IPV4_TYPE, IPV6_TYPE, PORT_TYPE = 20, 7, 8, 13  # as which nft shows keys; 6 bits each, put together
REGISTER: Final = 1  # the one that expressions use here, if not told another
WORDS: Final = (
    8  # NFT_REG32_00: the same place, counted in 32 bits, of which a key of several parts takes some for each
)
ADD, UPDATE = 0, 1  # NFT_DYNSET_OP_*
_APPEND: Final = 0x800  # NLM_F_APPEND
_OWNER: Final = 2  # NFT_TABLE_F_OWNER
_TIMEOUT, _EVAL = 0x10, 0x20  # NFT_SET_*
_VERDICT: Final = 0  # NFT_REG_VERDICT
_FIB_OIF: Final = 1  # NFT_FIB_RESULT_OIF
_FIB_SADDR, _FIB_IIF, _FIB_PRESENT = 1, 8, 32  # NFTA_FIB_F_*


def request(message: int, flags: int, family: int, body: bytes, name: str) -> Request:
    return Request(NF_TABLES << 8 | message, flags, struct.pack("!BBH", family, 0, 0) + body, name)


def add_table(family: int, name: str, *, is_owned: bool) -> Request:
    flags = number(2, _OWNER) if is_owned else b""
    return request(NEWTABLE, CREATE | EXCL, family, text(1, name) + flags, f"add table {name}")


def add_set(
    family: int, table: str, name: str, kind: int, size: int, *, identity: int, seconds: float = 0, most: int = 0
) -> Request:
    """Of keys of so many bytes. With `seconds` they expire, with `most` rules may add them, up to so many. `identity`
    is a number that no other set of the transaction has."""
    body = text(1, table) + text(2, name)
    flags = (_TIMEOUT if seconds else 0) | (_EVAL if most else 0)
    for attribute_kind, value in ((3, flags), (4, kind), (5, size), (10, identity)):
        body += number(attribute_kind, value)
    if most:
        body += nest(9, number(1, most))
    if seconds:
        body += attribute(11, struct.pack("!Q", int(seconds * 1000)))
    return request(NEWSET, CREATE, family, body, f"add set {name}")


def add_base_chain(family: int, table: str, chain: str, hook: int, priority: int) -> Request:
    """Of type filter, its policy is to accept."""
    hooked = number(1, hook) + attribute(2, struct.pack("!i", priority))
    body = text(1, table) + text(3, chain) + nest(4, hooked) + text(7, "filter")
    return request(NEWCHAIN, CREATE, family, body, f"add chain {chain}")


def add_rule(family: int, table: str, chain: str, expressions: bytes) -> Request:
    """The last one of its chain."""
    body = text(1, table) + text(2, chain) + nest(4, expressions)
    return request(NEWRULE, CREATE | _APPEND, family, body, f"add rule to {chain}")


def remove_table(netlink: Netlink, family: int, name: str) -> None:
    """Fine if there is none. Raises OSError, EPERM when another process owns it."""
    try:
        netlink.transact(NF_TABLES, [request(DELTABLE, 0, family, text(1, name), f"remove table {name}")])
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("!I", value))


def expression(name: str, data: bytes) -> bytes:
    return nest(1, text(1, name) + nest(2, data))


def meta(key: int) -> bytes:
    return expression("meta", number(1, REGISTER) + number(2, key))


def payload(base: int, offset: int, length: int, register: int = REGISTER) -> bytes:
    values = enumerate((register, base, offset, length), 1)
    return expression("payload", b"".join(number(kind, value) for kind, value in values))


def masked(mask: bytes) -> bytes:
    """Of what was loaded, only these bits."""
    data = number(1, REGISTER) + number(2, REGISTER) + number(3, len(mask))
    return expression("bitwise", data + nest(4, attribute(1, mask)) + nest(5, attribute(1, bytes(len(mask)))))


def compare(value: bytes, operator: int = EQUAL) -> bytes:
    """What was loaded with this value; when it does not hold, the rule ends here."""
    return expression("cmp", number(1, REGISTER) + number(2, operator) + nest(3, attribute(1, value)))


def is_in(name: str) -> bytes:
    """What was loaded is in the set of that name."""
    return expression("lookup", text(1, name) + number(2, REGISTER))


def put_into(name: str, operation: int) -> bytes:
    """What was loaded into the set of that name; UPDATE also lets it stay for longer."""
    return expression("dynset", text(1, name) + number(3, operation) + number(4, REGISTER))


def has_no_route_back() -> bytes:
    """`fib saddr . iif oif missing`: the packet's source is not reached by the interface that it came in on."""
    flags = _FIB_SADDR | _FIB_IIF | _FIB_PRESENT
    return expression("fib", number(1, REGISTER) + number(2, _FIB_OIF) + number(3, flags)) + compare(bytes(4))


def counter() -> bytes:
    return expression("counter", b"")


def verdict(code: int) -> bytes:
    return expression("immediate", number(1, _VERDICT) + nest(2, nest(2, number(1, code))))
