"""The proxy modes by name: open one, and remove the rules that others left. `process.py` calls it.

A mode's package is imported only when it is used, to save memory in a running proxy.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from bridgehead.suggestions import did_you_mean

from .address_texts import Family
from .config import MODES, UDP_IDLE_SECONDS, IpvsOptions
from .errors import ModeUnavailable, NotPermitted, ProxyError, TransactionFailed
from .frontends import quote
from .mode import Mode, Settings, SharingNames

log = logging.getLogger(__name__)

# The modes that serve instead of one that this node cannot use, in order. kube-proxy fell back from ipvs to iptables
# until v1.28, and ends now: then a node has no service proxy because of one missing package or module.
_INSTEAD = {"nftables": ("iptables",), "iptables": ("nftables",), "ipvs": ("iptables", "nftables")}
_INSTEAD_OF_OTHERS = ("nftables", "iptables")


class OpenedMode(NamedTuple):
    """The mode in use, and the one that the configuration asks for, which may be no mode at all.

    `problem`: why the wanted mode is not in use; "" if it is.
    """

    mode: Mode
    wanted: str
    problem: str = ""


@contextlib.asynccontextmanager
async def open_mode(
    name: str,
    *,
    probe: bool = True,
    ipvs_options: IpvsOptions | None = None,
    udp_idle_seconds: float = UDP_IDLE_SECONDS,
) -> AsyncIterator[Mode]:
    """Open the mode of that name in this network namespace. Raises ModeUnavailable.

    `probe`: check at once whether this process has the permission and the kernel the facilities.
    """
    match name:
        case "nftables":
            from . import nftables

            with contextlib.closing(nftables.Kernel()) as tables:
                if probe:
                    await tables.probe()
                yield nftables.NftablesMode(tables, Settings())
        case "iptables":
            from . import iptables

            with contextlib.closing(await iptables.Kernel.find()) as chains:
                if probe:
                    await chains.probe()
                yield iptables.IptablesMode(chains, Settings())
        case "ipvs":
            from . import iptables, ipvs

            options = ipvs_options or IpvsOptions()
            needs_tables = probe or iptables.has_any_tables()
            servers = await ipvs.Kernel.find() if needs_tables else ipvs.Kernel.without_tables()
            with contextlib.closing(servers):
                if probe:
                    await servers.probe(options)
                yield ipvs.IpvsMode(servers, Settings(), options)
        case "userspace":
            from . import userspace

            with contextlib.closing(userspace.Kernel()) as kernel:
                if probe:
                    await kernel.probe()
                listeners = userspace.Listeners(udp_idle_seconds)
                with contextlib.closing(userspace.UserspaceMode(kernel, Settings(), listeners)) as mode:
                    yield mode
        case _:
            known = f"{', '.join(MODES[:-1])} and {MODES[-1]} are"
            raise ModeUnavailable(f"{quote(name)} is no proxy mode; {known}{did_you_mean(name[:20], MODES)}")


@contextlib.asynccontextmanager
async def open_working_mode(
    wanted: str, *, ipvs_options: IpvsOptions | None = None, udp_idle_seconds: float = UDP_IDLE_SECONDS
) -> AsyncIterator[OpenedMode]:
    """Open a mode, or one that works in its place. Raises ModeUnavailable if this node can use neither."""
    failed: dict[str, ModeUnavailable] = {}
    async with contextlib.AsyncExitStack() as opened:
        for name in (wanted, *_INSTEAD.get(wanted, _INSTEAD_OF_OTHERS)):
            try:
                opening = open_mode(name, ipvs_options=ipvs_options, udp_idle_seconds=udp_idle_seconds)
                mode = await opened.enter_async_context(opening)
            except ModeUnavailable as error:
                failed[name] = error
            else:
                break
        else:
            raise _no_mode(failed)
        yield OpenedMode(mode, wanted, "; ".join(_describe(failed)))


def describe_missing_families(mode: str, served: Collection[Family], kernel: Iterable[Family]) -> str:
    """Return a text about the families that the kernel has and the mode cannot program; "" if there are none."""
    missing = [f"IPv{family}" for family in kernel if family not in served]
    if not missing:
        return ""
    text = f"mode {mode} cannot serve {' or '.join(missing)} on this node"
    if mode in ("iptables", "ipvs"):
        return f"{text}: install the package iptables with its ip6tables commands, and load the kernel's modules"
    return f"{text}: the kernel's nftables lacks what the proxy needs"


def _no_mode(failed: Mapping[str, ModeUnavailable]) -> ModeUnavailable:
    """Return the error for a node that can use none of these modes."""
    first = next(iter(failed.values()))
    if isinstance(first, NotPermitted):  # is enough: the other modes need the same permission
        return first
    return ModeUnavailable("; ".join(_describe(failed)))


def _describe(failed: Mapping[str, ModeUnavailable]) -> Iterator[str]:
    """Yield the reasons, each once, for the modes that have it."""
    modes: dict[str, list[str]] = {}
    for name, error in failed.items():
        modes.setdefault(str(error), []).append(name)
    for why, names in modes.items():
        if names[0] in MODES:
            yield f"mode{'s' * (len(names) > 1)} {' and '.join(names)} cannot be used on this node: {why}"
        else:
            yield why  # it names what is no mode


async def remove_others(name: str) -> list[str]:
    """Remove the rules of all modes but `name` from the kernel. Returns the modes that had any.

    The rules of an earlier kube-proxy are removed, too: it does not clean up when it ends, and its nftables tables
    would still drop packets, and translate them if they are younger than ours. Its other modes have our names.
    """
    removed, failed = await remove_modes(but=name)
    for other, error in failed.items():
        level = logging.DEBUG if isinstance(error, NotPermitted) else logging.WARNING
        log.log(level, "the rules of mode %s could not be removed: %s", other, error)
    return removed


async def remove_modes(but: str = "") -> tuple[list[str], dict[str, ProxyError]]:
    """Remove the rules of all modes from the kernel. Returns the modes that had any, and the errors of failed ones."""
    others = {other: open_mode(other, probe=False) for other in MODES if other != but}
    others["nftables of kube-proxy"] = _open_kube_proxys_tables()
    removed: list[str] = []
    failed: dict[str, ProxyError] = {}
    for other, opening in others.items():
        if other == "iptables" and not _has_iptables():
            continue
        try:
            async with opening as mode:
                if await mode.remove():
                    removed.append(other)
        except (NotPermitted, TransactionFailed) as error:
            failed[other] = error
        except ModeUnavailable as error:  # a mode that this node lacks has left no rules, except in kube-proxy's pod
            log.debug("mode %s has left no rules: %s", other, error)
            if other == "iptables":
                from . import without_iptables

                try:
                    removed += [other] * await without_iptables.remove_chains()
                except (ModeUnavailable, TransactionFailed) as trouble:
                    log.debug("chains of iptables cannot be removed without its commands: %s", trouble)
    return removed, failed


def _has_iptables() -> bool:
    from . import iptables

    return iptables.has_any_tables()


async def remove_leftovers(mode: str, *, is_last: bool = False) -> tuple[list[str], dict[str, ProxyError]]:
    """Remove the rules of all modes that kube-proxy does not use, which serves this node in that mode.

    `is_last`: kube-proxy will not write more than it has.

    Returns the modes that had any, and the errors of failed ones: another program may have changed rules meanwhile.
    """
    removed: list[str] = []
    failed: dict[str, ProxyError] = {}
    for name in MODES:
        try:
            async with open_mode(name, probe=False) as ours:
                removing = (
                    ours.remove_leftovers(mode, is_last=is_last) if isinstance(ours, SharingNames) else ours.remove()
                )
                if await removing:
                    removed.append(name)
        except (NotPermitted, TransactionFailed) as error:
            failed[name] = error
        except ModeUnavailable as error:
            log.debug("mode %s has left no rules: %s", name, error)
    return removed, failed


async def let_through(address: str, port: int) -> list[str]:
    """Exempt connections to this address from the rules that any mode left, until the first sync of the mode in use.

    Returns the modes that had rules.
    """
    done = []
    for name in MODES:
        if name == "iptables" and not _has_iptables():
            continue
        try:
            async with open_mode(name, probe=False) as mode:
                if await mode.let_through(address, port):
                    done.append(name)
        except (ModeUnavailable, NotPermitted, TransactionFailed) as error:
            log.debug("mode %s: %s", name, error)
    return done


@contextlib.asynccontextmanager
async def _open_kube_proxys_tables() -> AsyncIterator[Mode]:
    """Open the tables of kube-proxy's nftables mode, to remove them."""
    from . import nftables

    with contextlib.closing(nftables.Kernel()) as tables:
        yield nftables.NftablesMode(tables, Settings(), nftables.TableSpec("kube-proxy"))
