"""The proxy modes by name: open one, and remove the rules that others left. `process.py` calls it.

A mode's package is imported only when it is used, to save memory in a running proxy.
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
    """Open a mode; fall back from ipvs to iptables if the kernel lacks IPVS, as kube-proxy does."""
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
        try:
            async with opening as mode:
                if await mode.remove():
                    removed.append(other)
        except (NotPermitted, TransactionFailed) as error:
            failed[other] = error
        except ModeUnavailable as error:  # a mode that this node lacks has left no rules
            log.debug("mode %s has left no rules: %s", other, error)
    return removed, failed


async def let_through(address: str, port: int) -> list[str]:
    """Exempt connections to this address from the rules that any mode left, until the first sync of the mode in use.

    Returns the modes that had rules.
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
    """Open the tables of kube-proxy's nftables mode, to remove them."""
    from . import nftables

    with contextlib.closing(nftables.Kernel()) as tables:
        yield nftables.NftablesMode(tables, Settings(), nftables.TableSpec("kube-proxy"))
