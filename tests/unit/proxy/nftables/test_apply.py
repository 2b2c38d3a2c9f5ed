"""Error messages of nft, as version 1.0.6 prints them, and the errors that they become."""

from __future__ import annotations

import pytest

from bridgehead.proxy.errors import Busy, ModeUnavailable, NotFound, NotPermitted, ProxyError, Refused, TooBig
from bridgehead.proxy.nftables.apply import _as_exception


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("/dev/stdin:2:1-40: Error: Could not process rule: Device or resource busy", Refused),
        ("/dev/stdin:2:1-40: Error: Could not process rule: No such file or directory\nadd rule ip a b\n^^^", NotFound),
        ("netlink: Error: Could not process rule: Message too long", TooBig),
        ("netlink: Error: Could not process rule: No buffer space available", TooBig),
        ("/dev/stdin:1:1-9: Error: Could not process rule: Operation not permitted", NotPermitted),
        ("netlink: Error: cache initialization failed: Protocol not supported", ModeUnavailable),
        ("netlink: Error: cache initialization failed: Cannot allocate memory", Busy),
        ("/dev/stdin:2:1-40: Error: Could not process rule: Cannot allocate memory", Busy),
        ("nft ended with status -9", Busy),  # killed by the kernel for want of memory
        ("nft ended with status 1", Refused),
        # A set that is full: what is added to it is refused each time.
        ("/dev/stdin:2:1-40: Error: Could not process rule: Too many open files in system", Refused),
    ],
)
def test_messages_are_mapped_to_errors(message: str, kind: type[ProxyError]) -> None:
    error = _as_exception(message)

    assert type(error) is kind
    assert "\n" not in str(error)
