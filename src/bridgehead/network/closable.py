"""What every socket of this package has in common: it is closed by `close`, or by the end of a `with` block."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closable:
    """A context manager by its `close`."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
