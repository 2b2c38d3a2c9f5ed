"""Questions to a DNS server, in whatever network namespace the function runs.

`ask_names` asks as a program's resolver does: name by name, for A and AAAA records at once, until one has addresses.
"""

from __future__ import annotations

import os
import select
import socket
import time

import msgspec

from bridgehead.dns.errors import BadPacket
from bridgehead.dns.messages.upstream_replies import parse_reply_untrusted, read_name_untrusted
from bridgehead.dns.messages.wire import HEADER_SIZE, IN, LARGEST, RCODE_NAMES, RD, TYPES, decode_name, encode_name

from .name_resolution import FAMILIES, NOERROR, DnsAnswer

PORT = 53
_MOST_RECORDS = 64
_SIZES = {TYPES["A"]: 4, TYPES["AAAA"]: 16}


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """`server`: an address. `seconds`: for each name; a server that does not answer in time is asked no further."""

    server: str
    names: tuple[str, ...]
    seconds: float = 0.4


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """`source`: the address and port from which the questions came."""

    answers: tuple[DnsAnswer, ...] = ()
    source: tuple[str, int] = ("", 0)


def ask_names(questions: Questions) -> Answers:
    """Return the answers to all names that were asked for. Never raises OSError: errors are in `rcode`."""
    family = socket.AF_INET6 if ":" in questions.server else socket.AF_INET
    found: list[DnsAnswer] = []
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((questions.server, PORT))
        except OSError as error:
            return Answers(answers=(_failed(questions.names[0], questions.server, error.strerror or "unreachable"),))
        sock.setblocking(False)
        for name in questions.names:
            found.append(_ask(sock, name, questions))
            if found[-1].is_final or found[-1].rcode not in RCODE_NAMES:
                break
        return Answers(answers=tuple(found), source=sock.getsockname()[:2])


def _failed(name: str, server: str, why: str) -> DnsAnswer:
    return DnsAnswer(name=name, rcode=why.lower(), server=server)


def _ask(sock: socket.socket, name: str, questions: Questions) -> DnsAnswer:
    started = time.monotonic()
    pending: dict[bytes, bytes] = {}  # questions by message id
    parsed: list[DnsAnswer] = []
    try:
        for kind in FAMILIES:
            question = encode_name(name) + TYPES[kind].to_bytes(2) + IN.to_bytes(2)
            identity = os.urandom(2)
            pending[identity] = question
            sock.send(identity + bytes([RD, 0]) + b"\0\1" + bytes(6) + question)
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        while pending:
            left = started + questions.seconds - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return _failed(name, questions.server, f"no answer within {questions.seconds:g} s")
            data = sock.recv(LARGEST)
            asked = pending.get(data[:2])
            if asked is None:
                continue
            parsed.append(parse_answer(name, data, asked, questions.server))
            del pending[data[:2]]
    except (OSError, BadPacket) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return _failed(name, questions.server, why)
    errors = [answer.rcode for answer in parsed if answer.rcode != NOERROR]
    return DnsAnswer(
        name=name,
        rcode=NOERROR if len(errors) < len(parsed) else errors[0],
        addresses=tuple(dict.fromkeys(address for answer in parsed for address in answer.addresses)),
        aliases=tuple(dict.fromkeys(alias for answer in parsed for alias in answer.aliases)),
        server=questions.server,
        milliseconds=round((time.monotonic() - started) * 1000, 1),
    )


def parse_answer(name: str, data: bytes, question: bytes, server: str) -> DnsAnswer:
    records = parse_reply_untrusted(data, question)
    addresses, aliases = [], []
    for record in records[:_MOST_RECORDS]:
        if record.section:
            continue
        content = data[record.data_at : record.end]
        if record.type == TYPES["CNAME"]:
            aliases.append(decode_name(read_name_untrusted(data, record.data_at)))
        elif _SIZES.get(record.type) == len(content):
            family = socket.AF_INET6 if len(content) == _SIZES[TYPES["AAAA"]] else socket.AF_INET
            addresses.append(socket.inet_ntop(family, content))
    code = data[3] & 0xF if len(data) >= HEADER_SIZE else 0
    rcode = RCODE_NAMES[code] if code < len(RCODE_NAMES) else f"RCODE{code}"
    return DnsAnswer(name=name, rcode=rcode, addresses=tuple(addresses), aliases=tuple(aliases), server=server)
