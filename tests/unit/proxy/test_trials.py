"""Questions to the kernel before a mode is chosen. Integration tests ask real kernels."""

from __future__ import annotations

import pytest

from bridgehead.proxy.iptables.chains import trial_rules
from bridgehead.proxy.nftables.trial import trial


@pytest.mark.parametrize(("family", "backend"), [(4, "192.0.2.1:80"), (6, "[2001:db8::1]:80")])
def test_iptables_is_asked_for_every_match_and_target_that_all_services_need(family: int, backend: str) -> None:
    rules = trial_rules(family)

    text = "\n".join(f"{table} {rule}" for table, its in rules.items() for rule in its)
    for match in ("comment", "mark", "conntrack", "addrtype", "statistic", "tcp"):
        assert f"-m {match} " in text
    for target in ("MARK", "MASQUERADE --random-fully", f"DNAT --to-destination {backend}", "REJECT --reject-with"):
        assert f"-j {target}" in text
    assert "KUBE-" not in text, "a chain that the kernel does not have"


@pytest.mark.parametrize(("family", "table"), [(4, "ip bridgehead-probe"), (6, "ip6 bridgehead-probe")])
def test_nftables_is_asked_for_a_service_that_is_removed_at_once(family: int, table: str) -> None:
    text = trial(family)

    assert text.startswith(f"add table {table}\n")
    assert text.endswith(f"\ndelete table {table}\n")
    for statement in ("vmap @services", "dnat to ", "masquerade fully-random", "reject with tcp reset", "fib daddr"):
        assert statement in text
