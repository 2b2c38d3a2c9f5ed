"""Error messages of the iptables commands, as version 1.8.9 prints them, and the errors that they become."""

from __future__ import annotations

import pytest

from bridgehead.proxy.errors import (
    Busy,
    ModeUnavailable,
    NotFound,
    NotPermitted,
    ProxyError,
    Refused,
    TooBig,
    TransactionFailed,
)
from bridgehead.proxy.iptables.apply import _as_exception

TEXT = "*nat\n:A - [0:0]\n-A A -j B\nCOMMIT\n"
THREE = "*nat\n:A - [0:0]\nCOMMIT\n*nat\n-A A -j B\nCOMMIT\n*nat\n:C - [0:0]\nCOMMIT\n"


@pytest.mark.parametrize(
    ("message", "kind", "shown"),
    [
        ("sendmsg() failed: Message too long\niptables-nft-restore: line 4001 failed: Message too long.", TooBig, ""),
        ("iptables-restore: line 3 failed", Refused, "[-A A -j B]"),
        ("iptables-restore v1.8.9 (legacy): Couldn't load target `B':No such file or directory\n\n"
         "Error occurred at line: 3\nTry `iptables-restore -h' or 'iptables-restore --help'", NotFound, "[-A A -j B]"),
        ("iptables-nft-restore v1.8.9 (nf_tables): Chain 'Q' does not exist\nError occurred at line: 2", NotFound,
         "[:A - [0:0]]"),
        ("iptables-nft-restore: line 3 failed: Bad rule (does a matching rule exist in that chain?).", NotFound, ""),
        ("iptables-nft-restore v1.8.9 (nf_tables): \nline 3: CHAIN_DEL failed (Device or resource busy): chain A",
         Refused, "chain A"),
        ("# Warning: iptables-legacy tables present\niptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set "
         "generation id: Permission denied (you must be root)", NotPermitted, "CAP_NET_ADMIN"),
        ("Fatal: can't open lock file /run/xtables.lock: Permission denied", NotPermitted, "xtables.lock"),
        ("Can't lock /run/xtables.lock: Resource temporarily unavailable\nAnother app is currently holding the xtables "
         "lock. Stopped waiting after 5s.", Busy, "xtables lock"),
        ("iptables-nft-restore v1.8.9 (nf_tables): \nline 3: RULE_APPEND failed (Cannot allocate memory): rule in "
         "chain A", Busy, "chain A"),
        ("/usr/sbin/iptables-nft-restore ended with status -9", Busy, "-9"),
        ("iptables-nft-restore ended with status 1", Refused, ""),
        ("iptables-legacy v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to "
         "insmod?)", ModeUnavailable, "this kernel lacks"),
    ],
)  # fmt: skip
def test_messages_are_mapped_to_errors(message: str, kind: type[ProxyError], shown: str) -> None:
    error = _as_exception(message, TEXT)

    assert type(error) is kind
    assert shown in str(error)
    assert "Warning" not in str(error)
    assert "\n" not in str(error)
    assert "Try `" not in str(error)


@pytest.mark.parametrize(
    ("message", "applied"),
    [
        ("iptables-nft-restore: line 2 failed.", 0),
        ("iptables-nft-restore: line 5 failed: Index of insertion too big.", 1),
        ("iptables-nft-restore v1.8.9 (nf_tables): Chain 'B' does not exist\nError occurred at line: 6", 1),
        ("sendmsg() failed: Message too long\niptables-nft-restore: line 6 failed: Message too long.", 1),
        ("iptables-nft-restore v1.8.9 (nf_tables): \nline 8: CHAIN_DEL failed (Device or resource busy): chain C", 2),
        ("Killed", 0),
    ],
)
def test_the_line_number_gives_the_number_of_applied_sections(message: str, applied: int) -> None:
    error = _as_exception(message, THREE)

    assert isinstance(error, TransactionFailed)
    assert error.applied == applied
