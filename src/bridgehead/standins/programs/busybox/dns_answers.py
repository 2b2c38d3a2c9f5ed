"""The lines that BusyBox's nslookup (from 1.29 on) prints for a server's replies.

Pure: no I/O, no clock, no randomness. Source: BusyBox' networking/nslookup.c with FEATURE_NSLOOKUP_BIG, RFC 1035. A
server's message is at most `LONGEST_REPLY` bytes, and each step reads on in it, except for compressed names, which have
a limit of their own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

LONGEST_REPLY: Final = 512
SERVFAIL: Final = 2
_RCODES: Final = (
    *("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"),
    *("YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE", "11", "12", "13", "14", "15"),
)
_HEADER: Final = 12  # bytes
_AUTHORITATIVE: Final = 0x04  # in the third byte
_LONGEST_NAME: Final = 255  # bytes, uncompressed
_LABELS: Final = {2: "nameserver", 5: "canonical name", 12: "name"}  # of types whose data are one name
_ESCAPED: Final = b'".;\\()@$'  # in names, as glibc prints them


class _Malformed(Exception):
    """The message is a line that is printed before the error."""


class Description(NamedTuple):
    """The lines for a reply, and whether it was a good one."""

    text: str
    is_good: bool


class _Record(NamedTuple):
    name: str
    type: int
    start: int  # of its data in the message
    end: int


def response_code(message: bytes) -> int:
    return message[3] & 0x0F


def describe_reply(name: str, message: bytes, *, is_debug: bool = False) -> Description:
    """Return the lines for a reply of at least four bytes to a query for that name."""
    code = response_code(message)
    if code:
        return Description(f"** server can't find {name}: {_RCODES[code]}\n", is_good=False)
    lines = []
    if not message[2] & _AUTHORITATIVE:
        lines.append("Non-authoritative answer:\n")
    elif is_debug:
        lines.append("authoritative answer:\n")
    try:
        label = ""  # BusyBox prints the label of the first record for the names of all records in a reply
        for record in _read_answers(message):
            label = label or _LABELS.get(record.type, "")
            lines.append(_describe_record(message, record, label))
    except _Malformed as error:
        return Description("".join([*lines, str(error), f"*** Can't find {name}: Parse error\n"]), is_good=False)
    return Description("".join(lines), is_good=True)


def _read_answers(message: bytes) -> Iterator[_Record]:
    """The records of the answer section, after a look at all sections. Raises `_Malformed`."""
    if len(message) < _HEADER:
        raise _Malformed
    questions, answers, *others = (int.from_bytes(message[at : at + 2], "big") for at in (4, 6, 8, 10))
    position = _HEADER
    for _ in range(questions):
        position = _skip(message, _skip_name(message, position), 4)
    first = position
    for _ in range(answers + sum(others)):
        position = _skip_record(message, position)
    if position != len(message):
        raise _Malformed
    position = first
    for _ in range(answers):
        end = _skip_record(message, position)
        name, start = _read_name(message, position)
        kind = int.from_bytes(message[start : start + 2], "big")
        yield _Record(name, kind, start + 10, end)
        position = end


def _skip_record(message: bytes, position: int) -> int:
    position = _skip(message, _skip_name(message, position), 10)
    return _skip(message, position, int.from_bytes(message[position - 2 : position], "big"))


def _skip(message: bytes, position: int, count: int) -> int:
    if position + count > len(message):
        raise _Malformed
    return position + count


def _skip_name(message: bytes, position: int) -> int:
    while True:
        _skip(message, position, 1)
        length = message[position]
        if length >= 0xC0:
            return _skip(message, position, 2)
        if length > 0x3F:
            raise _Malformed
        position = _skip(message, position, 1 + length)
        if not length:
            return position


def _read_name(message: bytes, position: int) -> tuple[str, int]:
    """A name, and the position after it. Raises `_Malformed`, also for pointers that lead in a circle."""
    end = _skip_name(message, position)
    labels: list[bytes] = []
    size = jumps = 0
    while True:
        _skip(message, position, 1)
        length = message[position]
        if length >= 0xC0:
            jumps += 1
            _skip(message, position, 2)
            position = int.from_bytes(message[position : position + 2], "big") & 0x3FFF
            if jumps > len(message) // 2:
                raise _Malformed
            continue
        if length > 0x3F:
            raise _Malformed
        size += 1 + length
        if size > _LONGEST_NAME:
            raise _Malformed
        if not length:
            return ".".join(map(_format_label, labels)) or ".", end
        after = _skip(message, position, 1 + length)
        labels.append(message[position + 1 : after])
        position = after


def _format_label(label: bytes) -> str:
    return "".join(
        f"\\{chr(byte)}" if byte in _ESCAPED else chr(byte) if 0x20 < byte < 0x7F else f"\\{byte:03}" for byte in label
    )


def _describe_record(message: bytes, record: _Record, label: str) -> str:
    """Raises `_Malformed`. Records of other types have no lines."""
    if record.type in _LABELS:
        return f"{record.name}\t{label} = {_read_name(message, record.start)[0]}\n"
    describe = _DESCRIBED.get(record.type)
    return describe(message, record) if describe else ""


def _describe_address(message: bytes, record: _Record) -> str:
    data = message[record.start : record.end]
    if len(data) != (4 if record.type == 1 else 16):
        raise _Malformed
    address = ipaddress.ip_address(data)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return f"Name:\t{record.name}\nAddress: ::ffff:{address.ipv4_mapped}\n"
    return f"Name:\t{record.name}\nAddress: {address}\n"


def _describe_exchanger(message: bytes, record: _Record) -> str:
    if record.end - record.start < 2:
        raise _Malformed("MX record too short\n")
    preference = int.from_bytes(message[record.start : record.start + 2], "big")
    return f"{record.name}\tmail exchanger = {preference} {_read_name(message, record.start + 2)[0]}\n"


def _describe_text(message: bytes, record: _Record) -> str:
    """Only the first string is printed, and none if it is empty."""
    if record.end == record.start:
        raise _Malformed
    first = record.start + 1
    text = message[first : min(first + message[record.start], record.end)].split(b"\0")[0]
    if not message[record.start]:
        return ""
    return f'{record.name}\ttext = "{text.decode("utf-8", "surrogateescape")}"\n'


def _describe_service(message: bytes, record: _Record) -> str:
    if record.end - record.start < 6:
        raise _Malformed
    priority, weight, port = (
        int.from_bytes(message[at : at + 2], "big") for at in range(record.start, record.start + 6, 2)
    )
    target = _read_name(message, record.start + 6)[0]
    return f"{record.name}\tservice = {priority} {weight} {port} {target}\n"


def _describe_authority(message: bytes, record: _Record) -> str:
    if record.end - record.start < 20:
        raise _Malformed
    origin, position = _read_name(message, record.start)
    mailbox, position = _read_name(message, position)
    _skip(message, position, 20)
    labels = ("serial", "refresh", "retry", "expire", "minimum")
    numbers = (int.from_bytes(message[at : at + 4], "big") for at in range(position, position + 20, 4))
    lines = [f"\t{label} = {number}\n" for label, number in zip(labels, numbers, strict=True)]
    return f"{record.name}\n\torigin = {origin}\n\tmail addr = {mailbox}\n" + "".join(lines)


_DESCRIBED: Final[dict[int, Callable[[bytes, _Record], str]]] = {
    1: _describe_address,
    6: _describe_authority,
    15: _describe_exchanger,
    16: _describe_text,
    28: _describe_address,
    33: _describe_service,
}
