"""Tables in the kernel that may reject them: when they are made, filled, given up and made anew."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.balancer import kernel_tables as module
from bridgehead.balancer.kernel_tables import KernelTables
from bridgehead.network.closable import Closable


class Kernel:
    """The kernel, with the tables of one speaker. `rejected`: how many of the next calls fail, by method."""

    def __init__(self, **rejected: int) -> None:
        self.rejected = rejected
        self.attempts = 0
        self.is_there = False
        self.has_filled = asyncio.Event()

    def check(self, method: str) -> None:
        if self.rejected.get(method):
            self.rejected[method] -= 1
            raise OSError(f"{method}: busy")

    def make(self) -> Closable:
        self.attempts += 1
        self.check("make")
        assert not self.is_there
        return Tables(self)

    def fill(self, tables: Closable) -> None:
        self.check("fill")
        self.has_filled.set()


class Tables(Closable):
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        kernel.is_there = True

    def close(self) -> None:
        self._kernel.is_there = False


async def test_tables_are_made_when_they_are_needed_and_removed_at_the_end():
    kernel = Kernel()
    tables = KernelTables(kernel.make, kernel.fill, "")
    tables.update(is_needed=True)
    assert not kernel.attempts  # it does not run
    tables.update(is_needed=False)
    task = asyncio.create_task(tables.run())
    await asyncio.sleep(0)
    assert not kernel.attempts
    tables.update(is_needed=True)
    kernel.has_filled.clear()
    tables.update(is_needed=False)
    assert (kernel.is_there, kernel.has_filled.is_set()) == (True, True)
    task.cancel()
    await asyncio.wait([task])
    tables.update(is_needed=True)
    assert (kernel.is_there, kernel.attempts) == (False, 1)


@pytest.mark.parametrize("method", ["make", "fill"])
async def test_tables_that_the_kernel_rejects_are_made_anew_after_a_while(monkeypatch, caplog, method):
    """The warning comes once; `update` does not try before the back-off has ended."""
    monkeypatch.setattr(module, "_DELAYS", (0.001, 0.001))
    kernel = Kernel(**{method: 3})
    tables = KernelTables(kernel.make, kernel.fill, "connections will be reset")
    tables.update(is_needed=True)
    task = asyncio.create_task(tables.run())
    await asyncio.sleep(0)
    tables.update(is_needed=True)
    assert (kernel.attempts, kernel.is_there) == (1, False)
    await asyncio.wait_for(kernel.has_filled.wait(), 20)
    assert (kernel.attempts, kernel.is_there) == (4, True)
    assert [record.message for record in caplog.records] == [f"connections will be reset: {method}: busy"]
    kernel.rejected["fill"] = 1
    tables.update(is_needed=True)  # another outage
    assert not kernel.is_there
    assert len(caplog.records) == 2
    task.cancel()
    await asyncio.wait([task])
