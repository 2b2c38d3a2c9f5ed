"""`nslookup` as BusyBox has it from 1.29 on: it sends queries itself, over UDP.

Unlike the C library it completes only names without a dot, asks all of the search domains at the same time, and prints
each reply as it comes. Source: BusyBox' networking/nslookup.c with FEATURE_NSLOOKUP_BIG; the tests compare with
BusyBox 1.35.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

from bridgehead.standins.standin import Launch

from .command import report, use_default_signals
from .dns_answers import (
    LONGEST_REPLY,
    SERVFAIL,
    describe_reply,
    response_code,
)
from .dns_queries import (
    Arguments,
    InvalidType,
    Query,
    Resolver,
    UsageError,
    encode_query,
    parse_arguments,
    parse_resolver,
    plan_queries,
)
from .options import BadNumber
from .targets import Target, UnknownHost, find_target

_USAGE: Final = """\
Usage: nslookup [-type=QUERY_TYPE] [-debug] HOST [DNS_SERVER]

Query DNS about HOST

QUERY_TYPE: soa,ns,a,aaaa,cname,mx,txt,ptr,srv,any
"""
_CONFIGURATION: Final = "/etc/resolv.conf"
_LONGEST_CONFIGURATION: Final = 1 << 16  # bytes
_SHORTEST_REPLY: Final = 4  # bytes with which a reply can be matched


def run(launch: Launch) -> int:
    """Print the replies of the first DNS server that sends any; returns 1 for an error or if there are none."""
    use_default_signals()
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    try:
        arguments = parse_arguments(launch.argv[1:])
        resolver = Resolver((arguments.server,)) if arguments.server else _read_resolver()
        servers = [(name, find_target(name, arguments.port)) for name in resolver.servers or ("127.0.0.1",)]
    except UsageError:
        return report("", _USAGE)
    except (InvalidType, BadNumber, UnknownHost) as error:
        return report("nslookup", str(error))
    lookup = _Lookup(arguments, plan_queries(arguments.host, arguments.types, resolver.search))
    for name, target in servers:
        try:
            if lookup.ask(name, target):
                lookup.print_unanswered()
                return lookup.exit_code
        except ConnectionError as error:
            return report("nslookup", str(error))
    _print(";; connection timed out; no servers could be reached\n\n")
    return 1


def _read_resolver() -> Resolver:
    try:
        with open(_CONFIGURATION, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_LONGEST_CONFIGURATION)
    except OSError:
        text = ""
    return parse_resolver(text, socket.gethostname())


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class _Lookup:
    """Queries without a reply yet, by their id."""

    def __init__(self, arguments: Arguments, queries: Sequence[Query]) -> None:
        self._arguments = arguments
        self.exit_code = 0
        first = int.from_bytes(os.urandom(2), "big")
        self._numbers = {(first + number) & 0xFFFF: number for number in range(len(queries))}
        self._waiting = {key: queries[number] for key, number in self._numbers.items()}
        self._encoded = {key: encode_query(query, key) for key, query in self._waiting.items()}

    def ask(self, name: str, target: Target) -> int:
        """Send the queries to one server and print its replies; their number, 0 if there are none or one cannot be
        sent. Raises `ConnectionError` without a route to the server."""
        with socket.socket(target.family, socket.SOCK_DGRAM) as udp:
            try:
                udp.connect(target.address)
            except OSError as error:
                raise ConnectionError(target.describe_failure(error)) from None
            return _Exchange(self, udp, name, target).run(self._arguments.timeout, self._arguments.tries)

    def messages(self) -> list[bytes | None]:
        """The queries without a reply; None for one that has no message."""
        return [self._encoded[key] for key in self._waiting]

    def find(self, reply: bytes) -> bytes | None:
        """The query to which a reply belongs, if it has none yet."""
        key = int.from_bytes(reply[:2], "big")
        return self._encoded[key] if key in self._waiting else None

    def print_reply(self, reply: bytes, milliseconds: int) -> None:
        key = int.from_bytes(reply[:2], "big")
        query = self._waiting.pop(key)
        if self._arguments.is_debug:
            _print(f"Query #{self._numbers[key]} completed in {milliseconds}ms:\n")
        described = describe_reply(query.name, reply, is_debug=self._arguments.is_debug)
        if not described.is_good:
            self.exit_code = 1
        _print(f"{described.text}\n")

    @property
    def is_complete(self) -> bool:
        return not self._waiting

    def print_unanswered(self) -> None:
        if self._waiting:
            _print("".join(f"*** Can't find {query.name}: No answer\n" for query in self._waiting.values()) + "\n")


class _Exchange:
    """The datagrams to and from one server."""

    def __init__(self, lookup: _Lookup, udp: socket.socket, name: str, target: Target) -> None:
        self._lookup = lookup
        self._udp = udp
        self._name = name
        self._target = target
        self._has_header = False
        self._again = 0  # queries that are repeated at once after SERVFAIL

    def run(self, timeout: int, tries: int) -> int:
        interval = timeout / tries
        start = now = time.monotonic()
        sent = -interval
        replies = 0
        while now - start < timeout and not self._lookup.is_complete:
            if now - sent >= interval:
                if not self._send_all():
                    return 0
                sent = now
            reply = self._receive(max(interval - (now - sent), 0))
            now = time.monotonic()
            if reply is not None and self._take(reply, round((now - start) * 1000)):
                replies += 1
        return replies

    def _send_all(self) -> bool:
        messages = self._lookup.messages()
        for message in messages:
            try:
                if message is None:
                    raise OSError(0, "Message too long")
                self._udp.send(message)
            except OSError as error:
                report("nslookup", f"write to '{self._name}': {error.strerror}")
                return False
        self._again = 2 * len(messages)
        return True

    def _receive(self, seconds: float) -> bytes | None:
        self._udp.settimeout(max(seconds, 0.001))
        try:
            return self._udp.recv(LONGEST_REPLY)
        except TimeoutError:
            pass
        except OSError as error:
            report("nslookup", f"read: {error.strerror}")
        return None

    def _take(self, reply: bytes, milliseconds: int) -> bool:
        """Print a reply; whether it belongs to a query and is its last one."""
        if not self._has_header:
            self._has_header = True
            _print(f"Server:\t\t{self._name}\nAddress:\t{self._target}\n\n")
        query = self._lookup.find(reply) if len(reply) >= _SHORTEST_REPLY else None
        if query is None:
            return False
        if response_code(reply) == SERVFAIL and self._again:
            self._again -= 1
            self._send_again(query)
            return False
        self._lookup.print_reply(reply, milliseconds)
        return True

    def _send_again(self, query: bytes) -> None:
        with contextlib.suppress(OSError):  # the next try repeats it
            self._udp.send(query)
