"""Questions to the kernel before a mode is chosen. Integration tests ask real kernels."""

from __future__ import annotations

import pytest

from bridgehead.proxy import iptables, nftables
from bridgehead.proxy.errors import ModeUnavailable, NotPermitted, ProxyError, Refused
from bridgehead.proxy.iptables import apply as iptables_apply
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


NO_IPV6, NO_FIB = ModeUnavailable("no IPv6"), Refused("no fib")


@pytest.mark.parametrize(
    ("errors", "families"),
    [({}, (4, 6)), ({6: NO_IPV6}, (4,)), ({6: NO_FIB}, (4,)), ({4: NO_FIB}, (6,))],
)
async def test_nftables_serves_the_families_that_the_kernel_supports(
    monkeypatch: pytest.MonkeyPatch, errors: dict[int, ProxyError], families: tuple[int, ...]
) -> None:
    kernel = nft_kernel(monkeypatch, errors)
    await kernel.probe()
    assert kernel.families == families


@pytest.mark.parametrize(
    ("errors", "kind", "text"),
    [
        ({4: NO_FIB, 6: NO_IPV6}, ModeUnavailable, "this kernel's nftables lacks what the proxy needs: no fib"),
        ({4: ModeUnavailable("no nftables"), 6: NO_IPV6}, ModeUnavailable, "no nftables"),
        ({4: NotPermitted("CAP_NET_ADMIN")}, NotPermitted, "CAP_NET_ADMIN"),
    ],
)
async def test_nftables_is_not_available_without_any_family(
    monkeypatch: pytest.MonkeyPatch, errors: dict[int, ProxyError], kind: type[ProxyError], text: str
) -> None:
    with pytest.raises(kind) as caught:
        await nft_kernel(monkeypatch, errors).probe()
    assert str(caught.value) == text


def nft_kernel(monkeypatch: pytest.MonkeyPatch, errors: dict[int, ProxyError]) -> nftables.Kernel:
    async def apply(self: object, text: str) -> None:
        if (error := errors.get(6 if text.startswith("add table ip6 ") else 4)) is not None:
            raise error

    monkeypatch.setattr(nftables.Kernel, "apply", apply)
    kernel = object.__new__(nftables.Kernel)  # without the kernel's socket
    kernel.families = (4, 6)
    return kernel


@pytest.mark.parametrize(
    ("installed", "has_ipv6", "errors", "families", "asked"),
    [
        ((4, 6), True, {}, (4, 6), [4, 4, 6, 6]),
        ((4, 6), False, {}, (4, 6), [4, 4]),  # it has no addresses of IPv6: its tables are not created
        ((4,), True, {}, (4,), [4, 4]),
        ((4, 6), True, {6: NO_FIB}, (4,), [4, 4, 6]),
        ((4, 6), False, {4: NO_FIB}, (6,), [4, 6, 6]),
        ((6,), False, {}, (6,), [6, 6]),
    ],
)
async def test_iptables_serves_the_families_that_commands_and_kernel_support(
    monkeypatch: pytest.MonkeyPatch,
    installed: tuple[int, ...],
    has_ipv6: bool,
    errors: dict[int, ProxyError],
    families: tuple[int, ...],
    asked: list[int],
) -> None:
    seen: list[int] = []
    kernel = iptables_kernel(monkeypatch, installed, has_ipv6, errors, seen)

    await kernel.probe()

    assert (kernel.families, seen) == (families, asked)


async def test_iptables_is_not_available_if_the_kernel_lacks_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = iptables_kernel(monkeypatch, (4, 6), True, {4: NO_FIB, 6: NO_FIB}, [])

    with pytest.raises(ModeUnavailable, match="this kernel lacks what iptables needs: no fib"):
        await kernel.probe()


def iptables_kernel(
    monkeypatch: pytest.MonkeyPatch,
    installed: tuple[int, ...],
    has_ipv6: bool,
    errors: dict[int, ProxyError],
    seen: list[int],
) -> iptables.Kernel:
    async def restore(self: object, family: int, text: str) -> None:
        seen.append(family)
        if family in errors:
            raise errors[family]

    monkeypatch.setattr(iptables.Kernel, "restore", restore)
    monkeypatch.setattr(iptables_apply, "installed_variants", lambda: ("nft",))
    monkeypatch.setattr(iptables_apply, "_has_ipv6_addresses", lambda: has_ipv6)
    kernel = object.__new__(iptables.Kernel)
    kernel.variant, kernel.families = "nft", installed
    return kernel
