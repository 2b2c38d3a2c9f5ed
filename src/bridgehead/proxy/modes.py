"""The proxy modes by their names: opening one, and taking away what the others left. `cli/proxy.py` calls it.

A mode's package is imported only when it is used: memory of a running proxy is counted.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator

from .errors import ModeUnavailable, TransactionFailed
from .mode import Mode, Settings

log = logging.getLogger(__name__)

NAMES = ("iptables", "nftables")


@contextlib.asynccontextmanager
async def open_mode(name: str, *, probe: bool = True) -> AsyncIterator[Mode]:
    """The mode of that name in this network namespace. Raises ModeUnavailable.

    `probe` finds out at once whether this process may change anything.
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
        case _:
            raise ModeUnavailable(f"mode {name!r} is unknown; {' and '.join(NAMES)} work")


async def remove_others(name: str) -> list[str]:
    """Take the rules of all modes but `name` ("" for really all) out of the kernel; the modes that had any.

    A mode that this node cannot do has left nothing.
    """
    had = []
    for other in NAMES:
        if other == name:
            continue
        try:
            async with open_mode(other, probe=False) as mode:
                if await mode.remove():
                    had.append(other)
        except ModeUnavailable as error:
            log.debug("mode %s has left nothing: %s", other, error)
        except TransactionFailed as error:
            log.warning("the rules of mode %s could not be removed: %s", other, error)
    return had
