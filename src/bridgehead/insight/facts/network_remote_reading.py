"""Reads the state of a network namespace by the programs that are there, such as those of a proxy's image."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from itertools import islice
from typing import Final

from bridgehead.insight.findings import printable
from bridgehead.insight.network_namespaces import NetworkNamespace, NotEntered
from bridgehead.network.listening_ports import ListeningSocket, parse_all_sockets, parse_sctp_sockets

from .kernel_texts import parse_connections, parse_links, parse_routes, parse_sysctls, parse_virtual_servers
from .network_state import Listening, NetworkState, Section
from .sysctl_names import INTERFACES, PER_INTERFACE, SYSCTLS

MOST_CONNECTIONS: Final = 100_000
MOST_LISTENERS: Final = 10_000

_NOT_FOUND: Final = 127
_AT_ONCE: Final = 4  # programs
_SECONDS: Final = 30.0  # of one program
_NO_FILE: Final = b"No such file"
_SOCKET_FILES: Final = tuple(f"/proc/net/{name}" for name in ("tcp", "tcp6", "udp", "udp6", "sctp/eps"))
_SAVE: Final = {4: ("iptables-nft-save", "iptables-save"), 6: ("ip6tables-nft-save", "ip6tables-save")}
_SAVE_LEGACY: Final = {4: ("iptables-legacy-save", "iptables-save"), 6: ("ip6tables-legacy-save", "ip6tables-save")}
_NF_TABLES: Final = (b"(nf_tables)", b"-nft-save")  # in the first line of its output


class _Absent(Exception):
    """The kernel does not have the section."""


class _Unread(Exception):
    """A section that cannot be read; the text is the reason."""


async def read_by_programs(namespace: NetworkNamespace, sections: Collection[Section]) -> NetworkState:
    """Return the wanted sections. A section whose program is not there is unseen."""
    reading = _Reading(namespace)
    await asyncio.gather(*(reading.read(section) for section in sections))
    reading.state.unseen, reading.state.absent = reading.unseen, frozenset(reading.absent)
    return reading.state


class _Reading:
    def __init__(self, namespace: NetworkNamespace) -> None:
        self._namespace = namespace
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.state = NetworkState()
        self.unseen: dict[Section, str] = {}
        self.absent: set[Section] = set()
        self._readers: dict[Section, Callable[[], Awaitable[None]]] = {
            Section.NFTABLES: self._nftables,
            Section.IPTABLES: self._iptables,
            Section.IPTABLES_LEGACY: self._iptables_legacy,
            Section.IP_SETS: self._ip_sets,
            Section.VIRTUAL_SERVERS: self._virtual_servers,
            Section.CONNECTIONS: self._connections,
            Section.LISTENERS: self._listeners,
            Section.INTERFACES: self._interfaces,
            Section.ROUTES: self._routes,
            Section.SYSCTLS: self._sysctls,
        }

    async def read(self, section: Section) -> None:
        try:
            await self._readers[section]()
        except _Absent:
            self.absent.add(section)
        except (_Unread, NotEntered) as error:
            self.unseen[section] = printable(str(error))
        except (ValueError, IndexError):
            self.unseen[section] = "the output is not understood"

    async def _output(self, *argv: str, codes: Collection[int] = (0,)) -> bytes:
        """Return a program's standard output. Raises _Absent for a file that is not there; _Unread, NotEntered."""
        async with self._slots:
            code, stdout, stderr = await self._namespace.run(argv, seconds=_SECONDS)
        if code == _NOT_FOUND:
            raise _Unread(f"there is no {argv[0]} in the image")
        if code not in codes:
            if _NO_FILE in stderr and argv[0] == "cat":
                raise _Absent
            lines = stderr.decode(errors="replace").strip().splitlines()
            raise _Unread(f"{argv[0]}: {lines[0] if lines else f'exit code {code}'}")
        return stdout

    async def _first(self, *programs: tuple[str, ...]) -> bytes:
        """Return the output of the first of the programs that can be run. Raises the error of the first one."""
        errors = []
        for argv in programs:
            try:
                return await self._output(*argv)
            except (_Unread, _Absent) as error:
                errors.append(error)
        raise errors[0]

    async def _nftables(self) -> None:
        self.state.nftables = await self._output("nft", "--json", "list", "ruleset")

    async def _iptables(self) -> None:
        for family, names in _SAVE.items():
            text = await self._first(*((name,) for name in names))
            if text and not _is_of_nf_tables(text):
                raise _Unread("iptables-save of the image is that of iptables-legacy")
            self.state.iptables[family] = text

    async def _iptables_legacy(self) -> None:
        for family, names in _SAVE_LEGACY.items():
            text = await self._first(*((name,) for name in names))
            if _is_of_nf_tables(text):
                raise _Unread("iptables-save of the image is that of nf_tables")
            self.state.iptables_legacy[family] = text

    async def _ip_sets(self) -> None:
        self.state.ip_sets = await self._output("ipset", "save")

    async def _virtual_servers(self) -> None:
        text = await self._output("cat", "/proc/net/ip_vs")
        self.state.virtual_servers = parse_virtual_servers(_lines(text))

    async def _connections(self) -> None:
        file = ("cat", "/proc/net/nf_conntrack")
        try:
            text = await self._first(("conntrack", "-L", "-o", "extended,timestamp"), file)
        except _Absent:
            raise _Unread("there is no conntrack in the image, and the kernel has no /proc/net/nf_conntrack") from None
        found = tuple(islice(parse_connections(_lines(text)), MOST_CONNECTIONS + 1))
        self.state.connections = found[:MOST_CONNECTIONS]
        self.state.is_connections_cut = len(found) > MOST_CONNECTIONS

    async def _listeners(self) -> None:
        # Exit code 1 of cat: there is a file that the kernel does not have. It prints the others.
        text = await self._output("cat", *_SOCKET_FILES, codes=(0, 1))
        if not text:
            raise _Unread("cat: the sockets of /proc/net cannot be read")
        listeners = [
            Listening(
                protocol=each.listener.protocol,
                address=each.listener.address,
                port=each.listener.port,
                backlog=each.waiting,
            )
            for each in islice(_sockets(_lines(text)), MOST_LISTENERS + 1)
        ]
        self.state.listeners = tuple(listeners[:MOST_LISTENERS])
        if len(listeners) > MOST_LISTENERS:
            raise _Unread(f"there are more than {MOST_LISTENERS} sockets")

    async def _interfaces(self) -> None:
        self.state.interfaces = parse_links(await self._output("ip", "-j", "-d", "address"))

    async def _routes(self) -> None:
        for family in (4, 6):
            text = await self._output("ip", "-j", f"-{family}", "route", "show", "table", "all")
            self.state.routes += parse_routes(text, family)

    async def _sysctls(self) -> None:
        files = [f"/proc/sys/{name}" for name in SYSCTLS]
        files += [f"/proc/sys/{INTERFACES}/*/{name}" for name in PER_INTERFACE]
        # Exit code 2 of grep: there is a file that the kernel does not have. The shell finds the interfaces.
        text = await self._output("sh", "-c", f"grep -sH '' {' '.join(files)}", codes=(0, 1, 2))
        self.state.sysctls = parse_sysctls(_lines(text))


def _is_of_nf_tables(text: bytes) -> bool:
    return any(sign in text.partition(b"\n")[0] for sign in _NF_TABLES)


def _sockets(lines: Iterator[str]) -> Iterator[ListeningSocket]:
    """Yield the sockets of several files of /proc/net. Each begins with a heading, from which its protocol is seen."""
    files: list[list[str]] = []
    for line in lines:
        if line.split(maxsplit=1)[:1] in (["sl"], ["ENDPT"]):
            files.append([])
        if files:
            files[-1].append(line)
    for file in files:
        columns = file[0].split()
        if columns[0] == "ENDPT":
            yield from parse_sctp_sockets(iter(file))
        else:
            yield from parse_all_sockets(iter(file), "udp" if "drops" in columns else "tcp")


def _lines(text: bytes) -> Iterator[str]:
    return iter(text.decode("utf-8", "replace").splitlines())
