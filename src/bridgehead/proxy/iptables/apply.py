"""Access to iptables: finds the variant this node uses, restores, saves, detects changes.

iptables exists in two variants, `nft` (rules in nf_tables) and `legacy` (in the kernel's x_tables). Neither knows the
other's rules; packets pass both. This module alone starts their commands and interprets their error messages.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bridgehead.network.ruleset import Ruleset
from bridgehead.network.uapi.netfilter import NFPROTO_IPV4, NFPROTO_IPV6
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.commands import describe_failure, find_command, is_temporary, run_command
from bridgehead.proxy.errors import (
    NOT_PERMITTED,
    Busy,
    ModeUnavailable,
    NotFound,
    NotPermitted,
    Refused,
    TooBig,
    without_nf_tables,
)

from .chains import CANARY, trial_rules

VARIANTS = ("nft", "legacy")
_TABLES = frozenset({"filter", "mangle", "nat", "raw", "security"})  # those of iptables, in either variant
_SCOPE_GLOBAL = "00"  # in /proc/net/if_inet6; also of addresses of fc00::/7
_WAIT_SECONDS = "5"  # for the lock of the legacy variant
_NOT_INSTALLED = "the iptables commands are not here: install the package iptables"
_NOT_IN_KERNEL = "this kernel lacks what iptables needs"

State = tuple[object, ...]


class Kernel:
    """The iptables of the network namespace this process is in, in one variant. Raises ModeUnavailable.

    `families`: those whose commands are installed; after `probe`, those that also the kernel supports.
    """

    def __init__(self, variant: str) -> None:
        if variant not in installed_variants():
            raise ModeUnavailable(_NOT_INSTALLED)
        self._use(variant)

    def _use(self, variant: str) -> None:
        self.variant = variant
        self.families = installed_families(variant)
        self._watch: _Watch = _Generation() if variant == "nft" else _TableSizes()
        # The bytes of rules in one transaction; a twentieth of the buffer is left for other netlink messages.
        self.safe_bytes = self._watch.send_buffer() * 19 // 20

    @classmethod
    async def find(cls) -> Kernel:
        """Open the variant that the rest of this node uses, by the rules of Kubernetes' iptables-wrappers."""
        return cls(await find_variant())

    def close(self) -> None:
        self._watch.close()

    def other_variants(self) -> tuple[str, ...]:
        """Return the other variants that this node has. Rules of ours may be left there."""
        return tuple(variant for variant in installed_variants() if variant != self.variant)

    async def probe(self) -> None:
        """Raise NotPermitted or ModeUnavailable unless this process may change rules; creates empty canary chains.

        The kernel has to know all matches and targets that every Service needs. If it has only the other variant, the
        other variant is used. If it lacks them for one family, the other family is served. A node without addresses of
        IPv6 is not asked for it, since the question creates its tables.
        """
        first: ModeUnavailable | None = None
        has_ipv6 = _has_ipv6_addresses()
        for variant in (self.variant, *self.other_variants()):
            if variant != self.variant:
                self._watch.close()
                self._use(variant)
            supported: list[Family] = []
            for family in self.families:
                try:
                    if family == 4 or has_ipv6 or not supported:
                        await self.try_out(family, trial_rules(family))
                except ModeUnavailable as error:
                    first = first or error
                else:
                    supported.append(family)
            if supported:
                self.families = tuple(supported)
                return
        if first is not None:
            raise first

    async def try_out(self, family: Family, rules: Mapping[str, Sequence[str]]) -> None:
        """Write rules, by table, into the canary chains, to which nothing jumps, and empty the chains again.

        Raises ModeUnavailable if the kernel or the command lacks a match or a target.
        """
        try:
            await self.restore(family, _canaries(rules))
            await self.restore(family, _canaries(dict.fromkeys(rules, ())))
        except (NotFound, Refused) as error:
            raise ModeUnavailable(f"{_NOT_IN_KERNEL}: {error}") from error

    def state(self) -> State:
        """Return a value that differs when anybody has changed a table. Costs microseconds."""
        return self._watch.state()

    def state_after(self, before: State, transactions: int) -> State:
        """Return the state after that many transactions of our own and no others."""
        return self._watch.state_after(before, transactions)

    def between(self, before: State, after: State) -> Sequence[int] | None:
        """Return the generations of the transactions between two states. None: this variant does not count them."""
        return self._watch.between(before, after)

    async def restore(self, family: Family, text: str) -> None:
        """Restore the text into the family's tables; each section (`*table` to `COMMIT`) whole or not at all.

        Raises TooBig, Busy, NotFound or Refused, whose `applied` is the number of sections before the one that failed.
        """
        await self._restore(family, text)

    async def check(self, family: Family, text: str) -> None:
        """Raise iptables-restore's error for the text, though not the kernel's. Changes nothing."""
        await self._restore(family, text, "--test")

    async def _restore(self, family: Family, text: str, *options: str) -> None:
        command = _command(family, self.variant, "restore")
        status, _, error = await run_command(
            command, "--noflush", "--wait", _WAIT_SECONDS, "--counters", *options, text=text
        )
        if status:
            raise _as_exception(describe_failure(command, status, error), text)

    async def save(self, family: Family) -> bytes:
        """Return all rules of all tables of the family, as iptables-save prints them; b"" without its commands."""
        if family not in self.families or not has_tables(family, self.variant):
            return b""
        command = _command(family, self.variant, "save")
        status, output, error = await run_command(command)
        if status:
            raise _as_exception(describe_failure(command, status, error), "")
        return output

    async def list_chain(self, family: Family, table: str, chain: str) -> list[str]:
        """Return the rules of one chain as iptables-save prints them, without `-A CHAIN`."""
        command, begin = _command(family, self.variant), f"-A {chain} "
        status, output, error = await run_command(
            command, "--wait", _WAIT_SECONDS, "--table", table, "--list-rules", chain
        )
        if status:
            raise _as_exception(describe_failure(command, status, error), "")
        lines = output.decode(errors="replace").splitlines()
        return [line.removeprefix(begin) for line in lines if line.startswith(begin)]

    async def has_chain(self, family: Family, table: str, chain: str) -> bool:
        """Return whether the chain exists. Cheaper than listing everything."""
        command = _command(family, self.variant)
        status, _, error = await run_command(command, "--wait", _WAIT_SECONDS, "--table", table, "--list-rules", chain)
        if status and not re.search(r"No chain|does not exist|incompatible|No such file", error):
            raise _as_exception(describe_failure(command, status, error), "")
        return status == 0


class NoCommands:
    """Stands in for a `Kernel` on a node without iptables' commands: there is nothing to read and nothing to write."""

    variant = ""
    families: tuple[Family, ...] = ()

    def close(self) -> None:
        """Close nothing."""

    def other_variants(self) -> tuple[str, ...]:
        return ()

    async def probe(self) -> None:
        raise ModeUnavailable(_NOT_INSTALLED)

    async def try_out(self, family: Family, rules: Mapping[str, Sequence[str]]) -> None:
        raise ModeUnavailable(_NOT_INSTALLED)

    def state(self) -> State:
        return ()

    async def save(self, family: Family) -> bytes:
        return b""

    async def restore(self, family: Family, text: str) -> None:
        raise ModeUnavailable(_NOT_INSTALLED)


def _has_ipv6_addresses() -> bool:
    """Return whether this node has addresses of IPv6, apart from its loopback and link-local ones."""
    try:
        lines = Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()
    except OSError:  # the kernel has no IPv6
        return False
    return any(line.split()[3] == _SCOPE_GLOBAL for line in lines)


def has_tables(family: Family, variant: str) -> bool:
    """Return whether iptables-save has anything to print. False saves a process: a mode looks for rules of all others.

    The kernel lists the tables of each variant that exist in this network namespace.
    """
    try:
        if variant == "nft":
            with contextlib.closing(Ruleset()) as ruleset:
                return not _TABLES.isdisjoint(ruleset.table_names(NFPROTO_IPV6 if family == 6 else NFPROTO_IPV4))
        return bool(Path(f"/proc/net/{'ip6' if family == 6 else 'ip'}_tables_names").read_bytes())
    except FileNotFoundError:  # the kernel's module is not loaded
        return False
    except OSError:  # the command reports what is wrong
        return True


def has_any_tables() -> bool:
    """Return whether there are tables of any family and variant. False saves the search for the commands, which takes
    hundreds of system calls."""
    families: tuple[Family, ...] = (4, 6)
    return any(has_tables(family, variant) for variant in VARIANTS for family in families)


def installed_variants() -> tuple[str, ...]:
    """Return the variants whose commands are installed on this node, for one family at least."""
    return tuple(variant for variant in VARIANTS if installed_families(variant))


def installed_families(variant: str) -> tuple[Family, ...]:
    """Return the families for which the commands of a variant are installed on this node."""
    families: tuple[Family, ...] = (4, 6)
    return tuple(
        family
        for family in families
        if all(find_command(_name_of(family, variant, tool)) for tool in ("", "restore", "save"))
    )


async def find_variant() -> str:
    """Return the variant of the kubelet's hint chain, or else the one with more rules, or else that of `iptables`."""
    installed = installed_variants()
    if not installed:
        raise ModeUnavailable(_NOT_INSTALLED)
    rules: dict[str, int] = {}
    for variant in installed:
        listing = b""
        for family in installed_families(variant):
            if has_tables(family, variant):
                status, output, _ = await run_command(_command(family, variant, "save"))
                listing += output if status == 0 else b""
        if re.search(rb"^:KUBE-(?:IPTABLES-HINT|KUBELET-CANARY) ", listing, re.MULTILINE):
            return variant
        rules[variant] = len(re.findall(rb"^-", listing, re.MULTILINE))
    if len(installed) == 1:
        return installed[0]
    if rules["nft"] != rules["legacy"]:
        return max(rules, key=lambda variant: rules[variant])
    return _default_variant()


def _default_variant() -> str:
    """Return the variant of the plain command, a link to xtables-nft-multi or xtables-legacy-multi."""
    return "legacy" if "legacy" in os.path.realpath(find_command("iptables") or "") else "nft"


def _name_of(family: Family, variant: str, tool: str = "") -> str:
    return f"{'ip6' if family == 6 else 'ip'}tables-{variant}{'-' if tool else ''}{tool}"


def _canaries(rules: Mapping[str, Sequence[str]]) -> str:
    """Return the text that makes the canary chains hold these rules, by table."""
    lines = []
    for table, its in rules.items():
        lines += [f"*{table}", f":{CANARY} - [0:0]", *(f"-A {CANARY} {rule}" for rule in its), "COMMIT"]
    return "".join(f"{line}\n" for line in lines)


def _command(family: Family, variant: str, tool: str = "") -> str:
    name = _name_of(family, variant, tool)
    path = find_command(name)
    if path is None:
        raise ModeUnavailable(f"the command {name} is not here: install the package iptables")
    return path


def _as_exception(error: str, text: str) -> Exception:
    """Return the exception for an error message of iptables. `text` is what was restored, to show the line."""
    message = " ".join(line.strip() for line in error.splitlines() if not line.startswith(("#", "Try `")))[:500]
    line = re.search(r"line:? (\d+)", message)
    lines = text.splitlines()
    applied = 0
    if line is not None and 0 < int(line[1]) <= len(lines):
        message = f"{message} [{lines[int(line[1]) - 1][:200]}]"
        applied = lines[: int(line[1]) - 1].count("COMMIT")
    if "Message too long" in error or "No buffer space" in error:
        return TooBig(message, applied)
    if is_temporary(error):
        return Busy(message, applied)
    if re.search(r"Permission denied|you must be root|Operation not permitted", error):
        return NotPermitted(f"{NOT_PERMITTED.replace('nftables', 'iptables')}: {message}")
    if re.search(r"can't initialize|Table does not exist|Protocol not supported|Operation not supported", error):
        return ModeUnavailable(f"{_NOT_IN_KERNEL}: {message}")
    if re.search(r"No chain/target/match|does not exist|No such file|matching rule exist", error):
        return NotFound(message, applied)
    return Refused(message, applied)


class _Watch(Protocol):
    """Detection of changes."""

    def state(self) -> State: ...
    def state_after(self, before: State, transactions: int) -> State: ...
    def between(self, before: State, after: State) -> Sequence[int] | None: ...
    def send_buffer(self) -> int: ...
    def close(self) -> None: ...


class _Generation:
    """The nft variant: nf_tables counts its transactions, and iptables-restore makes one of each table."""

    def __init__(self) -> None:
        try:
            self._ruleset = Ruleset()
        except OSError as error:
            raise without_nf_tables(error) from error
        self.send_buffer = self._ruleset.send_buffer
        self.close = self._ruleset.close

    def state(self) -> State:
        return (self._ruleset.generation(),)

    def state_after(self, before: State, transactions: int) -> State:
        (generation,) = before
        if not isinstance(generation, int):
            return ()
        return (generation + transactions,)

    def between(self, before: State, after: State) -> Sequence[int] | None:
        first, last = before[0], after[0]
        return range(first + 1, last + 1) if isinstance(first, int) and isinstance(last, int) else None


_INFO = struct.Struct("=32sI5I5III")  # struct ipt_getinfo, ip6t_getinfo


class _TableSizes:
    """The legacy variant: has no counter, but the number of each table's rules and their sizes up to each hook."""

    _QUESTIONS = ((socket.AF_INET, socket.SOL_IP, 64), (socket.AF_INET6, 41, 64))  # IPT_SO_GET_INFO, IP6T_SO_GET_INFO
    _TABLES = (b"nat", b"filter", b"mangle")

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._sockets: list[socket.socket] = []
        for family, _, _ in self._QUESTIONS:
            with contextlib.suppress(OSError):  # a kernel without IPv6
                self._sockets.append(socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC))

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()

    def send_buffer(self) -> int:
        return 1 << 40  # no limit: not netlink

    def state(self) -> State:
        found: list[object] = []
        for sock, (_, level, option) in zip(self._sockets, self._QUESTIONS, strict=False):
            for table in self._TABLES:
                # Python's getsockopt passes an empty buffer, but this option needs the table's name in it.
                buffer = ctypes.create_string_buffer(_INFO.pack(table, *[0] * 13), _INFO.size)
                length = ctypes.c_uint32(_INFO.size)
                if self._libc.getsockopt(sock.fileno(), level, option, buffer, ctypes.byref(length)):
                    found.append(None)  # the table does not exist (yet)
                else:
                    found.append(buffer.raw)
        return tuple(found)

    def state_after(self, before: State, transactions: int) -> State:
        return self.state()

    def between(self, before: State, after: State) -> Sequence[int] | None:
        return None
