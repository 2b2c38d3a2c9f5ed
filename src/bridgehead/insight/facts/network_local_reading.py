"""Reads the state of the network namespace in which the process is, by netlink, by /proc and by the kernel's programs.

It changes nothing: tables, sets and modules that are not there are not made by looking for them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Final

import msgspec

from bridgehead.insight.findings import printable
from bridgehead.network.conntrack_listing import FlowRecord, list_flows
from bridgehead.network.ipset import IpSets
from bridgehead.network.listening_ports import ListeningSocket, parse_all_sockets, parse_sctp_sockets
from bridgehead.network.programs import Program, ProgramFailed, RunningProgram
from bridgehead.network.rtnetlink_listing import list_links, list_routes
from bridgehead.network.ruleset import Ruleset
from bridgehead.network.ruleset_events import FAMILIES

from .kernel_texts import parse_virtual_servers
from .network_state import AddressPort, Connection, Interface, Listening, NetworkState, Route, Section
from .sysctl_names import INTERFACES, PER_INTERFACE, SYSCTLS

MOST_CONNECTIONS: Final = 100_000
MOST_LISTENERS: Final = 10_000
MOST_ROUTES: Final = 100_000
_MOST_INTERFACES: Final = 1_000  # of whose sysctls are read
_MOST_DESCRIPTORS: Final = 100_000  # of processes, which are searched for the sockets of listeners
_MOST_BYTES: Final = 128 << 20  # of one program's output
_PROGRAM_SECONDS: Final = 60.0
_SYSTEM_PATH: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin")

_LEGACY_TABLES: Final = {4: "/proc/net/ip_tables_names", 6: "/proc/net/ip6_tables_names"}
_SAVE: Final = {
    4: ("iptables-nft-save", "iptables-save", "iptables-legacy-save"),
    6: ("ip6tables-nft-save", "ip6tables-save", "ip6tables-legacy-save"),
}
_SOCKET_FILES: Final = {"tcp": ("tcp", "tcp6"), "udp": ("udp", "udp6")}
_CLOCK_MONOTONIC_COARSE: Final = 6  # linux/time.h
_SOCKET_LINK: Final = re.compile(r"socket:\[(\d+)\]")
# A kernel without the subsystem, or without its module.
_NO_SUBSYSTEM: Final = frozenset(
    (errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.ENOPROTOOPT, errno.ENOENT)
)


class _Absent(Exception):
    """The kernel does not have the section."""


class _Unread(Exception):
    """A section that cannot be read; the text is the reason."""


def collect(sections: tuple[Section, ...]) -> bytes:
    """Return the state as MessagePack (`NetworkState`)."""
    return msgspec.msgpack.encode(collect_state(sections))


def collect_state(sections: Collection[Section]) -> NetworkState:
    """Return the wanted sections of the current network namespace. Blocks."""
    state = NetworkState()
    unseen: dict[Section, str] = {}
    absent = set()
    # Programs first: they run while netlink is read.
    for section, read in [(each, _start(each)) for each in Section if each in sections]:
        try:
            read(state)
        except _Absent:
            absent.add(section)
        except _Unread as error:
            unseen[section] = printable(str(error))
        except OSError as error:
            unseen[section] = printable(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    state.unseen, state.absent = unseen, frozenset(absent)
    return state


def _start(section: Section) -> Callable[[NetworkState], None]:
    """Start the programs of a section and return the function that puts the section into a state."""
    match section:
        case Section.NFTABLES:
            return _Nftables()
        case Section.IPTABLES:
            return _Iptables()
        case Section.IPTABLES_LEGACY:
            return _IptablesLegacy()
        case Section.IP_SETS:
            return _read_ip_sets
        case Section.VIRTUAL_SERVERS:
            return _read_virtual_servers
        case Section.CONNECTIONS:
            return _read_connections
        case Section.LISTENERS:
            return _read_listeners
        case Section.INTERFACES:
            return _read_interfaces
        case Section.ROUTES:
            return _read_routes
        case Section.SYSCTLS:
            return _read_sysctls


# --- Programs ---------------------------------------------------------------------------------------------------


class _Listing:
    """A program that lists something, and runs from the beginning."""

    def __init__(self, *argv: str) -> None:
        path = os.pathsep.join((os.environ.get("PATH", ""), *_SYSTEM_PATH))
        self._name = argv[0]
        self._program = RunningProgram(Program(argv, {"PATH": path, "LC_ALL": "C"}, _MOST_BYTES, _PROGRAM_SECONDS))

    def output(self) -> bytes:
        """Return standard output. Raises _Unread."""
        try:
            code, stdout, stderr = self._program.wait()
        except ProgramFailed as error:
            raise _Unread(str(error)) from None
        if code:
            lines = stderr.decode(errors="replace").strip().splitlines()
            line = lines[0] if lines else f"exit code {code}"
            raise _Unread(line if line.startswith(self._name) else f"{self._name}: {line}")
        return stdout


class _Nftables:
    def __init__(self) -> None:
        self._program = _Listing("nft", "--json", "list", "ruleset")

    def __call__(self, state: NetworkState) -> None:
        output = self._program.output()
        state.nftables = output if _is_json(output) else _list_tables()


def _is_json(output: bytes) -> bool:
    try:
        msgspec.json.decode(output, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def _list_tables() -> bytes:
    """List tables one by one, without those that nft cannot print: 1.0.6 aborts at the flags of some (owner)."""
    found: list[object] = []
    with _reading("nftables"), Ruleset() as ruleset:
        tables = [(keyword, name) for number, keyword in FAMILIES.items() for name in ruleset.table_names(number)]
    for keyword, name in sorted(tables):
        with contextlib.suppress(_Unread, msgspec.DecodeError):
            listing = msgspec.json.decode(_Listing("nft", "--json", "list", "table", keyword, name).output())
            found += listing["nftables"]
    return msgspec.json.encode({"nftables": found})


class _Iptables:
    """The rules of the variant nf_tables, which has a name of its own where the other variant is installed, too."""

    def __init__(self) -> None:
        self._programs = {family: _Listing(_SAVE[family][0]) for family in _SAVE}

    def __call__(self, state: NetworkState) -> None:
        for family, program in self._programs.items():
            try:
                state.iptables[family] = program.output()
            except _Unread as error:
                text = _Listing(_SAVE[family][1]).output()
                if b"(nf_tables)" not in text and text:
                    raise _Unread("only iptables-legacy is installed") from error
                state.iptables[family] = text


class _IptablesLegacy:
    """The rules of the variant legacy. Where the kernel has no tables of it, listing would make some."""

    def __init__(self) -> None:
        self._programs = {}
        self._error: OSError | None = None
        for family, path in _LEGACY_TABLES.items():
            with contextlib.suppress(FileNotFoundError):
                try:
                    if _read(path).strip():
                        self._programs[family] = _Listing(_SAVE[family][2])
                except PermissionError as error:
                    self._error = error

    def __call__(self, state: NetworkState) -> None:
        for family, program in self._programs.items():
            state.iptables_legacy[family] = program.output()
        if self._error is not None:
            raise self._error
        if not any(map(os.path.exists, _LEGACY_TABLES.values())):
            raise _Absent


# --- The kernel's own interfaces --------------------------------------------------------------------------------


def _read_ip_sets(state: NetworkState) -> None:
    if not os.path.exists("/sys/module/ip_set"):
        raise _Absent
    with contextlib.suppress(_Unread):
        state.ip_sets = _Listing("ipset", "save").output()
        return
    lines = []
    with _reading("IP sets"), IpSets() as sets:
        for name, (kind, *_) in sets.headers().items():
            family = "" if kind.kind.startswith("bitmap:") else f" family inet{'6' if kind.family == 6 else ''}"
            marks = " skbinfo" if kind.has_marks else ""
            lines.append(f"create {name} {kind.kind}{family}{marks}\n")
            lines += [f"add {name} {element}\n" for element in sorted(sets.elements(name))]
    state.ip_sets = "".join(lines).encode()


def _read_virtual_servers(state: NetworkState) -> None:
    try:
        with open("/proc/net/ip_vs", encoding="ascii", errors="replace") as lines:
            state.virtual_servers = parse_virtual_servers(lines, _ticks_per_second())
    except FileNotFoundError:
        raise _Absent from None


def _ticks_per_second() -> int:
    """Return the kernel's HZ: its coarse clocks advance with each tick."""
    return round(1 / time.clock_getres(_CLOCK_MONOTONIC_COARSE))


def _read_connections(state: NetworkState) -> None:
    with _reading("connection tracking"):
        records, state.is_connections_cut = list_flows(MOST_CONNECTIONS)
    now = time.time()
    state.connections = tuple(_connection(record, now) for record in records)


def _connection(record: FlowRecord, now: float) -> Connection:
    sent, replied = record.sent, record.replied
    return Connection(
        protocol=record.protocol,
        source=AddressPort(*record.source),
        destination=AddressPort(*record.destination),
        reply_source=AddressPort(*record.reply_source),
        reply_destination=AddressPort(*record.reply_destination),
        state=record.state,
        is_assured=record.is_assured,
        is_unreplied=record.is_unreplied,
        packets=(sent[0], replied[0]) if sent and replied else None,
        bytes=(sent[1], replied[1]) if sent and replied else None,
        age=None if record.started is None else max(now - record.started, 0.0),
        timeout=record.timeout,
        mark=record.mark,
        zone=record.zone,
    )


def _read_interfaces(state: NetworkState) -> None:
    state.interfaces = tuple(
        Interface(
            name=link.name,
            index=link.number,
            mtu=link.mtu,
            is_up=link.is_up,
            addresses=link.addresses,
            kind=link.kind,
        )
        for link in list_links()
    )


def _read_routes(state: NetworkState) -> None:
    records, is_cut = list_routes(MOST_ROUTES)
    state.routes = tuple(
        Route(
            destination=each.destination,
            family=each.family,
            device=each.device,
            via=each.via,
            kind=each.kind,
            table=each.table,
            metric=each.metric,
            source=each.source,
        )
        for each in records
    )
    if is_cut:
        raise _Unread(f"there are more than {MOST_ROUTES} routes")


@contextlib.contextmanager
def _reading(subsystem: str) -> Iterator[None]:
    """Raise _Absent when the kernel has no such subsystem."""
    try:
        yield
    except PermissionError:
        raise _Unread(f"{subsystem}: CAP_NET_ADMIN is needed") from None
    except OSError as error:
        if error.errno in _NO_SUBSYSTEM:
            raise _Absent from None
        raise


# --- /proc ------------------------------------------------------------------------------------------------------


def _read_listeners(state: NetworkState) -> None:
    sockets = list(islice(_listening_sockets(), MOST_LISTENERS + 1))
    programs = _programs({each.inode for each in sockets})
    state.listeners = tuple(
        Listening(
            protocol=each.listener.protocol,
            address=each.listener.address,
            port=each.listener.port,
            program=programs.get(each.inode, ""),
            backlog=each.waiting,
        )
        for each in sockets[:MOST_LISTENERS]
    )
    if len(sockets) > MOST_LISTENERS:
        raise _Unread(f"there are more than {MOST_LISTENERS} sockets")


def _listening_sockets() -> Iterator[ListeningSocket]:
    for protocol, names in _SOCKET_FILES.items():
        for name in names:
            with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{name}", encoding="ascii") as lines:
                yield from parse_all_sockets(lines, protocol)
    with contextlib.suppress(FileNotFoundError), open("/proc/net/sctp/eps", encoding="ascii") as lines:
        yield from parse_sctp_sockets(lines)


def _programs(inodes: set[int]) -> dict[int, str]:
    """Return the names of the programs that have sockets, by the sockets' inodes, as far as they can be seen."""
    found: dict[int, str] = {}
    wanted = inodes - {0}
    here = os.stat("/proc/self/ns/net").st_ino
    seen = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        if len(found) == len(wanted) or seen > _MOST_DESCRIPTORS:
            break
        # Processes end, and those of other users cannot be seen.
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{process}/ns/net").st_ino != here:
                continue
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                seen += 1
                link = _SOCKET_LINK.fullmatch(os.readlink(f"/proc/{process}/fd/{descriptor}"))
                if link and (inode := int(link[1])) in wanted and inode not in found:
                    found[inode] = printable(_read(f"/proc/{process}/comm").strip())
    return found


def _read_sysctls(state: NetworkState) -> None:
    names = list(SYSCTLS)
    with contextlib.suppress(OSError):
        for interface in sorted(os.listdir(f"/proc/sys/{INTERFACES}"))[:_MOST_INTERFACES]:
            names += [f"{INTERFACES}/{interface}/{name}" for name in PER_INTERFACE]
    for name in names:
        with contextlib.suppress(OSError):
            state.sysctls[name] = " ".join(_read(f"/proc/sys/{name}").split())


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
