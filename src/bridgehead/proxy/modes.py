"""The proxy modes by their names: opening one, and taking away what the others left. `cli/proxy.py` calls it.

A mode's package is imported only when it is used: memory of a running proxy is counted.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator

from .config import MODES, UDP_IDLE_SECONDS, IpvsOptions
from .errors import ModeUnavailable, NotPermitted, ProxyError, TransactionFailed
from .mode import Mode, Settings

log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def open_mode(
    name: str,
    *,
    probe: bool = True,
    ipvs_options: IpvsOptions | None = None,
    udp_idle_seconds: float = UDP_IDLE_SECONDS,
) -> AsyncIterator[Mode]:
    """The mode of that name in this network namespace. Raises ModeUnavailable.

    `probe` finds out at once whether this process may change anything, and the kernel can.
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
            from . import ipvs

            options = ipvs_options or IpvsOptions()
            with contextlib.closing(await ipvs.Kernel.find()) as servers:
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
            raise ModeUnavailable(f"mode {name!r} is unknown; {', '.join(MODES[:-1])} and {MODES[-1]} work")


@contextlib.asynccontextmanager
async def open_working_mode(
    name: str, *, ipvs_options: IpvsOptions | None = None, udp_idle_seconds: float = UDP_IDLE_SECONDS
) -> AsyncIterator[Mode]:
    """As `open_mode`, but with iptables in the place of ipvs where the kernel cannot do that, as in kube-proxy."""
    async with contextlib.AsyncExitStack() as opened:
        try:
            opening = open_mode(name, ipvs_options=ipvs_options, udp_idle_seconds=udp_idle_seconds)
            mode = await opened.enter_async_context(opening)
        except ModeUnavailable as error:
            if name != "ipvs":
                raise
            log.warning("mode ipvs cannot work on this node, falling back to iptables: %s", error)
            mode = await opened.enter_async_context(open_mode("iptables"))
        yield mode


async def remove_others(name: str) -> list[str]:
    """Take the rules of all modes but `name` out of the kernel; the modes that had any.

    With them goes what kube-proxy left that was here before: it does not clean up when it ends, and its tables
    of nftables go on dropping, and translating if they are younger than ours. In its other modes it has our names.
    """
    removed, failed = await remove_modes(but=name)
    for other, error in failed.items():
        level = logging.DEBUG if isinstance(error, NotPermitted) else logging.WARNING
        log.log(level, "the rules of mode %s could not be removed: %s", other, error)
    return removed


async def remove_modes(but: str = "") -> tuple[list[str], dict[str, ProxyError]]:
    """Take the rules of all modes out of the kernel; the modes that had any, and why others may still have some."""
    others = {other: open_mode(other, probe=False) for other in MODES if other != but}
    others["nftables of kube-proxy"] = _open_kube_proxys_tables()
    removed: list[str] = []
    failed: dict[str, ProxyError] = {}
    for other, opening in others.items():
        try:
            async with opening as mode:
                if await mode.remove():
                    removed.append(other)
        except (NotPermitted, TransactionFailed) as error:
            failed[other] = error
        except ModeUnavailable as error:  # a mode that this node cannot do has left nothing
            log.debug("mode %s has left nothing: %s", other, error)
    return removed, failed


async def let_through(address: str, port: int) -> list[str]:
    """Let connections to this address pass by the rules of the modes in use here before; those that had any.

    Until the first sync of the one in use now.
    """
    done = []
    for name in MODES:
        try:
            async with open_mode(name, probe=False) as mode:
                if await mode.let_through(address, port):
                    done.append(name)
        except (ModeUnavailable, NotPermitted, TransactionFailed) as error:
            log.debug("mode %s: %s", name, error)
    return done


@contextlib.asynccontextmanager
async def _open_kube_proxys_tables() -> AsyncIterator[Mode]:
    """The tables that kube-proxy's nftables mode has, to be removed."""
    from . import nftables

    with contextlib.closing(nftables.Kernel()) as tables:
        yield nftables.NftablesMode(tables, Settings(), nftables.Place("kube-proxy"))
