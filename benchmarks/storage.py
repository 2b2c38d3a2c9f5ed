"""Durable writes per second of the stores, from one writer and from a hundred at once.

`run()` gives the rows for the table of `make bench`; run directly, it prints them. The file is made in the current
temporary directory (TMPDIR), so it measures that directory's disk.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bridgehead.storage import Facts, Key, Store, open_store

_SECONDS = 1.0
_PADDING = "x" * 2000  # with it an object is about as large as a pod


async def _write(store: Store, writer: int, until: float) -> int:
    written = 0
    while time.perf_counter() < until:
        name = f"w{writer}-{written}"
        value = {"kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {"text": _PADDING}}
        await store.create(Key("pods", "default", name), value, Facts(labels={"app": "bench"}))
        written += 1
        if written % 100 == 0:
            await asyncio.sleep(0)  # the store in memory never waits, so its writers would not take turns
    return written


async def _measure(url: str, writers: int) -> float:
    """Writes a second."""
    store = open_store(url)
    start = time.perf_counter()
    try:
        counts = await asyncio.gather(*(_write(store, writer, start + _SECONDS) for writer in range(writers)))
    finally:
        await store.close()
    return sum(counts) / (time.perf_counter() - start)


def run() -> list[tuple[str, str]]:
    """Rows of (name, value)."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for kind in ("memory", "sqlite"):
            for writers in (1, 100):
                path = Path(directory) / f"{writers}.db"
                rate = asyncio.run(_measure("memory" if kind == "memory" else f"sqlite://{path}", writers))
                rows.append((f"storage, {kind}: writes/s, {writers} writer{'s' * (writers > 1)}", f"{rate:,.0f}"))
    return rows


if __name__ == "__main__":
    for name, value in run():
        print(f"{name:<45} {value:>10}")
