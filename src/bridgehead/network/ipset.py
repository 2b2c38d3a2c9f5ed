"""The kernel's IP sets: creates and lists them, adds and removes elements.

Elements are texts as the `ipset` command prints them: `10.96.0.1,tcp:80`, `10.244.1.2,tcp:80,10.244.1.2`,
`192.0.2.1,tcp:80,10.0.0.0/24`, `10.96.0.1`, `30080`; in sets with marks followed by ` skbmark 0x5/0x3fff`.
Source: linux/netfilter/ipset/ip_set.h, net/netfilter/ipset/ip_set_core.c.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from .closable import Closable
from .inet import PROTOCOL_NAMES, PROTOCOLS, address_family
from .netlink_attributes import attribute, each_attribute, nest, parse_attributes, parse_text, text
from .netlink_socket import NETFILTER_HEADER, NetlinkSocket, Request, netfilter_header
from .uapi.ip_set import (
    IPSET_ATTR_ADT,
    IPSET_ATTR_CADT_FLAGS,
    IPSET_ATTR_CIDR2,
    IPSET_ATTR_DATA,
    IPSET_ATTR_ELEMENTS,
    IPSET_ATTR_FAMILY,
    IPSET_ATTR_FLAGS,
    IPSET_ATTR_IP,
    IPSET_ATTR_IP2,
    IPSET_ATTR_IPADDR_IPV4,
    IPSET_ATTR_IPADDR_IPV6,
    IPSET_ATTR_LINENO,
    IPSET_ATTR_MAXELEM,
    IPSET_ATTR_PORT,
    IPSET_ATTR_PORT_TO,
    IPSET_ATTR_PROTO,
    IPSET_ATTR_PROTOCOL,
    IPSET_ATTR_REVISION,
    IPSET_ATTR_SETNAME,
    IPSET_ATTR_SETNAME2,
    IPSET_ATTR_SKBMARK,
    IPSET_ATTR_TYPENAME,
    IPSET_CMD_ADD,
    IPSET_CMD_CREATE,
    IPSET_CMD_DEL,
    IPSET_CMD_DESTROY,
    IPSET_CMD_FLUSH,
    IPSET_CMD_LIST,
    IPSET_CMD_SWAP,
    IPSET_CMD_TYPE,
    IPSET_ERR_BUSY,
    IPSET_ERR_EXIST,
    IPSET_ERR_FIND_TYPE,
    IPSET_ERR_MAX_SETS,
    IPSET_ERR_PROTOCOL,
    IPSET_FLAG_LIST_HEADER,
    IPSET_FLAG_WITH_SKBINFO,
    IPSET_PROTOCOL_MIN,
)
from .uapi.ip_set_hash import IPSET_ERR_HASH_FULL
from .uapi.netfilter import NFPROTO_UNSPEC
from .uapi.netlink import NETLINK_NETFILTER, NLA_F_NET_BYTEORDER, NLM_F_EXCL
from .uapi.nfnetlink import NFNL_SUBSYS_IPSET

_ELEMENTS_AT_ONCE: Final = 200  # in one message: a nest has at most 64 KiB
# Of a hash. The kernel's default is that of the `ipset` command and of kube-proxy: with another limit, `ipset create
# -exist` fails, though the set exists.
USUAL_LIMIT: Final = 65536
LARGE_LIMIT: Final = 1 << 22  # the kernel's hash grows with its elements
_ALL_BITS: Final = 0xFFFFFFFF

_ABSENT: Final = frozenset((errno.ENOENT,))
# The subsystem's own errors: the nearest errno, and a description.
_ERRORS: Final = {
    IPSET_ERR_PROTOCOL: (errno.EINVAL, "the kernel does not understand this"),
    IPSET_ERR_FIND_TYPE: (errno.EOPNOTSUPP, "the kernel has no sets of this type"),
    IPSET_ERR_MAX_SETS: (errno.EINVAL, "there are too many sets"),
    IPSET_ERR_BUSY: (errno.EBUSY, "the set is in use"),
    IPSET_ERR_EXIST: (errno.EINVAL, "it is there already, or not there"),
    IPSET_ERR_HASH_FULL: (errno.ENOSPC, "the set is full"),
}


class SetType(NamedTuple):
    """The type of a set. `kind`: hash:ip,port hash:ip,port,ip hash:ip,port,net hash:ip bitmap:port; `family`: 4, 6.

    `has_marks`: each element has a mark for the packets that match it (`skbinfo` of the `ipset` command).
    """

    kind: str
    family: int = 4
    has_marks: bool = False


class SetHeader(NamedTuple):
    """A set without its elements. `size`: how many they are; -1 where the kernel does not report it.

    `limit`: how many a hash may have; None for a bitmap.
    """

    kind: SetType
    size: int
    limit: int | None


class IpSets(Closable):
    """The sets of the network namespace in which it was made. Methods block, and raise OSError."""

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(NETLINK_NETFILTER)
        self._revisions: dict[tuple[str, int], int] = {}

    def close(self) -> None:
        self._netlink.close()

    def headers(self) -> dict[str, SetHeader]:
        """Return every set without its elements."""
        found = {}
        for answer in self._list(_be32(IPSET_ATTR_FLAGS, IPSET_FLAG_LIST_HEADER), "list sets"):
            if IPSET_ATTR_DATA not in answer:
                continue
            header = parse_attributes(answer[IPSET_ATTR_DATA])
            flags = int.from_bytes(header.get(IPSET_ATTR_CADT_FLAGS, b""))
            kind = SetType(
                parse_text(answer[IPSET_ATTR_TYPENAME]),
                6 if answer[IPSET_ATTR_FAMILY][0] == socket.AF_INET6 else 4,
                bool(flags & IPSET_FLAG_WITH_SKBINFO),
            )
            size = int.from_bytes(header[IPSET_ATTR_ELEMENTS]) if IPSET_ATTR_ELEMENTS in header else -1
            limit = int.from_bytes(header[IPSET_ATTR_MAXELEM]) if IPSET_ATTR_MAXELEM in header else None
            found[parse_text(answer[IPSET_ATTR_SETNAME])] = SetHeader(kind, size, limit)
        return found

    def elements(self, name: str) -> set[str]:
        """Return the elements of a set; none if the set is absent."""
        found: set[str] = set()
        for answer in self._list(text(IPSET_ATTR_SETNAME, name), f"list set {name}"):
            for kind, data in each_attribute(answer.get(IPSET_ATTR_ADT, b"")):
                if kind == IPSET_ATTR_DATA:
                    found.add(_element_text(parse_attributes(data)))
        return found

    def create(self, name: str, kind: SetType, *, limit: int = USUAL_LIMIT) -> None:
        """Create an empty set. Raises OSError with EEXIST when there is one of that name."""
        data = b""
        if kind.kind.startswith("hash:"):
            data = _be32(IPSET_ATTR_MAXELEM, limit)
            if kind.has_marks:
                data += _be32(IPSET_ATTR_CADT_FLAGS, IPSET_FLAG_WITH_SKBINFO)
        else:
            data = _be16(IPSET_ATTR_PORT, 0) + _be16(IPSET_ATTR_PORT_TO, 65535)
        family = NFPROTO_UNSPEC if kind.kind.startswith("bitmap:") else address_family(kind.family)
        body = (
            text(IPSET_ATTR_SETNAME, name)
            + text(IPSET_ATTR_TYPENAME, kind.kind)
            + attribute(IPSET_ATTR_REVISION, bytes([self._revision(kind.kind, family)]))
            + attribute(IPSET_ATTR_FAMILY, bytes([family]))
            + nest(IPSET_ATTR_DATA, data)
        )
        self._send([_request(IPSET_CMD_CREATE, body, f"create set {name} ({kind.kind})", NLM_F_EXCL)])

    def destroy(self, names: Iterable[str]) -> None:
        """Remove sets; absent ones are success. Raises OSError with EBUSY for a set that a rule refers to."""
        self._send(
            _request(IPSET_CMD_DESTROY, text(IPSET_ATTR_SETNAME, name), f"destroy set {name}")._replace(
                tolerated=_ABSENT
            )
            for name in names
        )

    def change_limit(self, name: str, limit: int, by: str) -> None:
        """Put a set with that limit in the place of a hash; packets meet one of the two.

        `by`: the name of that set meanwhile. What another program changes during the call is lost.
        """
        kind = self.headers()[name].kind
        self.destroy([by])
        self.create(by, kind, limit=limit)
        try:
            self.add(by, self.elements(name))
            swap = text(IPSET_ATTR_SETNAME, by) + text(IPSET_ATTR_SETNAME2, name)
            self._send([_request(IPSET_CMD_SWAP, swap, f"swap sets {by} and {name}")])
        finally:
            self.destroy([by])

    def flush(self, names: Iterable[str]) -> None:
        """Empty sets; absent ones are success."""
        self._send(
            _request(IPSET_CMD_FLUSH, text(IPSET_ATTR_SETNAME, name), f"flush set {name}")._replace(tolerated=_ABSENT)
            for name in names
        )

    def add(self, name: str, elements: Iterable[str]) -> None:
        """Add elements; set the marks of those that exist."""
        self._send(self._element_requests(IPSET_CMD_ADD, name, elements, f"add to set {name}"))

    def remove(self, name: str, elements: Iterable[str]) -> None:
        """Remove elements; absent ones are success."""
        self._send(self._element_requests(IPSET_CMD_DEL, name, elements, f"remove from set {name}"))

    def _element_requests(self, command: int, name: str, elements: Iterable[str], what: str) -> Iterator[Request]:
        chunk: list[bytes] = []
        for element in elements:
            line = _be32(IPSET_ATTR_LINENO, len(chunk))
            chunk.append(nest(IPSET_ATTR_DATA, _element_body(element, with_mark=command == IPSET_CMD_ADD) + line))
            if len(chunk) == _ELEMENTS_AT_ONCE:
                yield _elements_request(command, name, chunk, what)
                chunk = []
        if chunk:
            yield _elements_request(command, name, chunk, what)

    def _revision(self, kind: str, family: int) -> int:
        """Return the newest revision of a type that the kernel has. Revisions without marks reject sets with marks."""
        known = self._revisions.get((kind, family))
        if known is None:
            body = text(IPSET_ATTR_TYPENAME, kind) + attribute(IPSET_ATTR_FAMILY, bytes([family]))
            try:
                answer = self._netlink.ask(_request(IPSET_CMD_TYPE, body, f"set type {kind}")) or b""
            except OSError as error:
                raise _explained(error) from error
            known = parse_attributes(answer[NETFILTER_HEADER.size :])[IPSET_ATTR_REVISION][0]
            self._revisions[kind, family] = known
        return known

    def _list(self, body: bytes, what: str) -> Iterator[dict[int, bytes]]:
        try:
            answers = self._netlink.dump(_request(IPSET_CMD_LIST, body, what)._replace(tolerated=_ABSENT))
        except OSError as error:
            raise _explained(error) from error
        for payload in answers:
            yield parse_attributes(payload[NETFILTER_HEADER.size :])

    def _send(self, requests: Iterable[Request]) -> None:
        try:
            self._netlink.send(requests)
        except OSError as error:
            raise _explained(error) from error


def _explained(error: OSError) -> OSError:
    """Return the error with the nearest errno and a description, if its number is one of this subsystem's own."""
    if error.errno not in _ERRORS:
        return error
    number, description = _ERRORS[error.errno]
    return OSError(number, f"{str(error.strerror).rpartition(': ')[0]}: {description}")


def _request(command: int, body: bytes, name: str, flags: int = 0) -> Request:
    head = netfilter_header(socket.AF_INET) + attribute(IPSET_ATTR_PROTOCOL, bytes([IPSET_PROTOCOL_MIN]))
    return Request(NFNL_SUBSYS_IPSET << 8 | command, flags, head + body, f"ipset: {name}")


def _elements_request(command: int, name: str, chunk: list[bytes], what: str) -> Request:
    body = text(IPSET_ATTR_SETNAME, name) + _be32(IPSET_ATTR_LINENO, 0) + nest(IPSET_ATTR_ADT, b"".join(chunk))
    return _request(command, body, what)


def _be16(kind: int, value: int) -> bytes:
    return attribute(kind | NLA_F_NET_BYTEORDER, struct.pack("!H", value))


def _be32(kind: int, value: int) -> bytes:
    return attribute(kind | NLA_F_NET_BYTEORDER, struct.pack("!I", value))


def _ip(kind: int, address: str) -> bytes:
    if ":" in address:
        packed = socket.inet_pton(socket.AF_INET6, address)
        return nest(kind, attribute(IPSET_ATTR_IPADDR_IPV6 | NLA_F_NET_BYTEORDER, packed))
    return nest(kind, attribute(IPSET_ATTR_IPADDR_IPV4 | NLA_F_NET_BYTEORDER, socket.inet_aton(address)))


def _element_body(element: str, *, with_mark: bool) -> bytes:
    """Return the attributes of an element, given as text. Raises ValueError."""
    key, _, mark = element.partition(" skbmark ")
    first, *rest = key.split(",")
    if not rest:
        return _be16(IPSET_ATTR_PORT, int(first)) if first.isdigit() else _ip(IPSET_ATTR_IP, first)
    protocol, _, port = rest[0].partition(":")
    body = _ip(IPSET_ATTR_IP, first) + _be16(IPSET_ATTR_PORT, int(port))
    number = PROTOCOLS[protocol] if protocol in PROTOCOLS else int(protocol)  # others as `_element_text` has them
    body += attribute(IPSET_ATTR_PROTO, bytes([number]))
    if len(rest) > 1:
        other, slash, length = rest[1].partition("/")
        body += _ip(IPSET_ATTR_IP2, other)
        if slash:
            body += attribute(IPSET_ATTR_CIDR2, bytes([int(length)]))
    if mark and with_mark:
        value, _, mask = mark.partition("/")
        packed = struct.pack("!II", int(value, 16), int(mask, 16))
        body += attribute(IPSET_ATTR_SKBMARK | NLA_F_NET_BYTEORDER, packed)
    return body


def _element_text(found: dict[int, bytes]) -> str:
    """Return an element's text, as `ipset list` prints it."""
    parts = []
    if IPSET_ATTR_IP in found:
        parts.append(_address(found[IPSET_ATTR_IP]))
    if IPSET_ATTR_PORT in found:
        port = int.from_bytes(found[IPSET_ATTR_PORT])
        number = found[IPSET_ATTR_PROTO][0] if IPSET_ATTR_PROTO in found else 0
        parts.append(f"{PROTOCOL_NAMES.get(number, number)}:{port}" if number else str(port))
    if IPSET_ATTR_IP2 in found:
        other = _address(found[IPSET_ATTR_IP2])
        bits = 128 if ":" in other else 32
        length = found[IPSET_ATTR_CIDR2][0] if IPSET_ATTR_CIDR2 in found else bits
        parts.append(other if length == bits else f"{other}/{length}")
    key = ",".join(parts)
    if IPSET_ATTR_SKBMARK not in found:
        return key
    mark, mask = struct.unpack("!II", found[IPSET_ATTR_SKBMARK])
    return f"{key} skbmark {mark:#x}/{mask:#x}" if mask != _ALL_BITS else f"{key} skbmark {mark:#x}"


def _address(nested: bytes) -> str:
    for kind, packed in each_attribute(nested):
        return socket.inet_ntop(socket.AF_INET if kind == IPSET_ATTR_IPADDR_IPV4 else socket.AF_INET6, packed)
    return ""
