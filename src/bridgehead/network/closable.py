"""The base class of this package's sockets and tables: context managers by their `close`."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closable:
    """A context manager that calls `close` at the end."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
