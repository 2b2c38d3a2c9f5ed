"""The kernel's IP sets: makes them, lists them, adds and removes elements. Over netlink, encoded by hand as `ipvs` is.

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
from .netlink import (
    EXCL,
    GENERIC_SIZE,
    NESTED,
    NETFILTER,
    PROTOCOL_NAMES,
    PROTOCOLS,
    Netlink,
    Request,
    address_family,
    as_text,
    attribute,
    attributes,
    each_attribute,
    nest,
    text,
)

_SUBSYSTEM: Final = 6 << 8
_CREATE, _DESTROY, _FLUSH, _LIST, _ADD, _DEL, _TYPE = 2, 3, 4, 7, 9, 10, 13
_PROTOCOL, _SETNAME, _TYPENAME, _REVISION, _FAMILY, _FLAGS, _DATA, _ADT, _LINENO = range(1, 10)
_HEADERS_ONLY: Final = 4
_VERSION: Final = 6
# of elements and of creation
_IP, _PORT, _PORT_TO, _PROTO, _CADT_FLAGS = 1, 4, 5, 7, 8
_IP2, _CIDR2, _SKBMARK = 20, 21, 27
_MAXELEM, _ELEMENTS = 19, 24
_WITH_MARKS: Final = 1 << 6
_NET_ORDER: Final = 0x4000

_ELEMENTS_AT_ONCE: Final = 200  # in one message, whose size a nest limits to 64 KiB
_MOST_ELEMENTS: Final = 1 << 22  # the hash grows with what is in it

_GONE: Final = frozenset((errno.ENOENT,))
_ERRORS: Final = {
    4097: "the kernel does not understand this",
    4098: "the kernel has no sets of this type",
    4099: "there are too many sets",
    4100: "somebody uses it",
    4103: "it is there already, or not there",
    4352: "the set is full",
}


class SetType(NamedTuple):
    """What kind of set. `kind`: hash:ip,port hash:ip,port,ip hash:ip,port,net hash:ip bitmap:port; `family`: 4, 6.

    `has_marks`: each element carries a mark for the packets that match it.
    """

    kind: str
    family: int = 4
    has_marks: bool = False


class IpSets(Closable):
    """The sets of the network namespace in which it was made. Use as a context manager, or `close` it.

    Methods block, and raise OSError.
    """

    def __init__(self) -> None:
        self._netlink = Netlink(NETFILTER)
        self._revisions: dict[tuple[str, int], int] = {}

    def close(self) -> None:
        self._netlink.close()

    def types(self) -> dict[str, tuple[SetType, int]]:
        """Every set there is, with how many elements it has (-1: this kernel does not tell)."""
        found = {}
        for there in self._list(attribute(_FLAGS | _NET_ORDER, struct.pack("!I", _HEADERS_ONLY)), "list sets"):
            if _DATA not in there:
                continue
            header = attributes(there[_DATA])
            flags = int.from_bytes(header.get(_CADT_FLAGS, b""))
            kind = SetType(as_text(there[_TYPENAME]), 6 if there[_FAMILY][0] == socket.AF_INET6 else 4,
                           bool(flags & _WITH_MARKS))  # fmt: skip
            count = int.from_bytes(header[_ELEMENTS]) if _ELEMENTS in header else -1
            found[as_text(there[_SETNAME])] = (kind, count)
        return found

    def elements(self, name: str) -> set[str]:
        """The elements of one set; none when it is not there."""
        found: set[str] = set()
        for there in self._list(text(_SETNAME, name), f"list set {name}"):
            for kind, data in each_attribute(there.get(_ADT, b"")):
                if kind == _DATA:
                    found.add(_element_text(attributes(data)))
        return found

    def create(self, name: str, kind: SetType) -> None:
        """Make an empty set. Raises OSError with EEXIST when there is one of that name."""
        data = b""
        if kind.kind.startswith("hash:"):
            data = attribute(_MAXELEM | _NET_ORDER, struct.pack("!I", _MOST_ELEMENTS))
            if kind.has_marks:
                data += attribute(_CADT_FLAGS | _NET_ORDER, struct.pack("!I", _WITH_MARKS))
        else:
            data = _port(_PORT, 0) + _port(_PORT_TO, 65535)
        family = 0 if kind.kind.startswith("bitmap:") else address_family(kind.family)  # NFPROTO_UNSPEC
        body = (
            text(_SETNAME, name)
            + text(_TYPENAME, kind.kind)
            + attribute(_REVISION, bytes([self._revision(kind.kind, family)]))
            + attribute(_FAMILY, bytes([family]))
            + nest(_DATA, data)
        )
        self._send([_request(_CREATE, body, f"create set {name} ({kind.kind})", EXCL)])

    def destroy(self, names: Iterable[str]) -> None:
        """Remove sets; those that are gone are fine. One that a rule refers to is refused (EBUSY)."""
        self._send(
            _request(_DESTROY, text(_SETNAME, name), f"destroy set {name}")._replace(tolerated=_GONE) for name in names
        )

    def flush(self, names: Iterable[str]) -> None:
        """Empty sets; those that are gone are fine."""
        self._send(
            _request(_FLUSH, text(_SETNAME, name), f"flush set {name}")._replace(tolerated=_GONE) for name in names
        )

    def add(self, name: str, elements: Iterable[str]) -> None:
        """Add elements, or give those that are there their mark."""
        self._send(self._element_requests(_ADD, name, elements, f"add to set {name}"))

    def remove(self, name: str, elements: Iterable[str]) -> None:
        """Remove elements; those that are gone are fine."""
        self._send(self._element_requests(_DEL, name, elements, f"remove from set {name}"))

    def _element_requests(self, command: int, name: str, elements: Iterable[str], what: str) -> Iterator[Request]:
        chunk: list[bytes] = []
        for element in elements:
            line = attribute(_LINENO | _NET_ORDER, struct.pack("!I", len(chunk)))
            chunk.append(nest(_DATA, _element_body(element, with_mark=command == _ADD) + line))
            if len(chunk) == _ELEMENTS_AT_ONCE:
                yield _elements_request(command, name, chunk, what)
                chunk = []
        if chunk:
            yield _elements_request(command, name, chunk, what)

    def _revision(self, kind: str, family: int) -> int:
        """The newest the kernel has of a type: what is used here is in all of them, or refused by an older one."""
        known = self._revisions.get((kind, family))
        if known is None:
            body = text(_TYPENAME, kind) + attribute(_FAMILY, bytes([family]))
            try:
                answer = self._netlink.ask(_request(_TYPE, body, f"set type {kind}"))
            except OSError as error:
                raise _explained(error) from error
            known = self._revisions[kind, family] = attributes((answer or b"")[GENERIC_SIZE:])[_REVISION][0]
        return known

    def _list(self, body: bytes, what: str) -> Iterator[dict[int, bytes]]:
        try:
            answers = self._netlink.dump(_request(_LIST, body, what)._replace(tolerated=_GONE))
        except OSError as error:
            raise _explained(error) from error
        for payload in answers:
            yield attributes(payload[GENERIC_SIZE:])

    def _send(self, requests: Iterable[Request]) -> None:
        try:
            self._netlink.send(requests)
        except OSError as error:
            raise _explained(error) from error


def _explained(error: OSError) -> OSError:
    """With this subsystem's own numbers in words, and as the nearest of the system's."""
    words = _ERRORS.get(error.errno or 0)
    if words is None:
        return error
    number = {4098: errno.EOPNOTSUPP, 4100: errno.EBUSY, 4352: errno.ENOSPC}.get(error.errno or 0, errno.EINVAL)
    return OSError(number, f"{str(error.strerror).rpartition(': ')[0]}: {words}")


def _request(command: int, body: bytes, name: str, flags: int = 0) -> Request:
    head = struct.pack("=BBH", socket.AF_INET, 0, 0) + attribute(_PROTOCOL, bytes([_VERSION]))
    return Request(_SUBSYSTEM | command, flags, head + body, f"ipset: {name}")


def _elements_request(command: int, name: str, chunk: list[bytes], what: str) -> Request:
    body = text(_SETNAME, name) + attribute(_LINENO | _NET_ORDER, struct.pack("!I", 0)) + nest(_ADT, b"".join(chunk))
    return _request(command, body, what)


def _port(kind: int, port: int) -> bytes:
    return attribute(kind | _NET_ORDER, struct.pack("!H", port))


def _ip(kind: int, address: str) -> bytes:
    if ":" in address:
        return attribute(kind | NESTED, attribute(2 | _NET_ORDER, socket.inet_pton(socket.AF_INET6, address)))
    return attribute(kind | NESTED, attribute(1 | _NET_ORDER, socket.inet_aton(address)))


def _element_body(element: str, *, with_mark: bool) -> bytes:
    """The attributes of an element's text. Raises ValueError."""
    place, _, mark = element.partition(" skbmark ")
    first, *rest = place.split(",")
    if not rest:
        return _port(_PORT, int(first)) if first.isdigit() else _ip(_IP, first)
    protocol, _, port = rest[0].partition(":")
    body = _ip(_IP, first) + _port(_PORT, int(port)) + attribute(_PROTO, bytes([PROTOCOLS[protocol]]))
    if len(rest) > 1:
        other, slash, length = rest[1].partition("/")
        body += _ip(_IP2, other)
        if slash:
            body += attribute(_CIDR2, bytes([int(length)]))
    if mark and with_mark:
        value, _, mask = mark.partition("/")
        body += attribute(_SKBMARK | _NET_ORDER, struct.pack("!II", int(value, 16), int(mask, 16)))
    return body


def _element_text(found: dict[int, bytes]) -> str:
    """As `ipset list` prints it."""
    parts = []
    if _IP in found:
        parts.append(_address(found[_IP]))
    if _PORT in found:
        port = int.from_bytes(found[_PORT])
        number = found[_PROTO][0] if _PROTO in found else 0
        parts.append(f"{PROTOCOL_NAMES.get(number, number)}:{port}" if number else str(port))
    if _IP2 in found:
        other = _address(found[_IP2])
        bits = 128 if ":" in other else 32
        length = found[_CIDR2][0] if _CIDR2 in found else bits
        parts.append(other if length == bits else f"{other}/{length}")
    place = ",".join(parts)
    if _SKBMARK in found:
        mark, mask = struct.unpack("!II", found[_SKBMARK])
        place += f" skbmark {mark:#x}/{mask:#x}" if mask != 0xFFFFFFFF else f" skbmark {mark:#x}"
    return place


def _address(nested: bytes) -> str:
    for kind, packed in each_attribute(nested):
        return socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, packed)
    return ""
