"""Failures of TLS handshakes.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations


def is_plain_answer(error: OSError) -> bool:
    """Whether a handshake failed since the answer is no TLS; the second text is that of OpenSSL 3.2 and later."""
    return any(text in str(error) for text in ("wrong version number", "record layer failure"))
