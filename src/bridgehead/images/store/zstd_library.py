"""Python's own zstd: a module of its standard library since 3.14, and the same one as a package before."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
