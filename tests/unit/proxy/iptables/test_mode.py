"""The iptables mode when a transaction is too big, is refused, or no longer fits the rules."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.errors import Disturbed, NotFound, Refused, TooBig
from bridgehead.proxy.frontend_table import FrontendTable
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, ServiceFrontends
from bridgehead.proxy.iptables.apply import State
from bridgehead.proxy.iptables.mode import IptablesMode
from bridgehead.proxy.iptables.render import Renderer
from bridgehead.proxy.mode import Settings
from tests.unit.proxy.iptables.fake_iptables import FakeIptables

SETTINGS = Settings((4,), ("10.244.0.0/16",), ("10.96.0.0/12",))
SERVICES = 60


class FakeKernel:
    """The kernel behind iptables-restore, with a send buffer. `on_section` is called before each section."""

    variant = "nft"

    def __init__(self, safe_bytes: int) -> None:
        self.safe_bytes = safe_bytes
        self.families: dict[Family, FakeIptables] = {4: FakeIptables(), 6: FakeIptables()}
        self.generation = 1
        self.sections = 0
        self.saved = 0
        self.on_section: Callable[[int, str], None] = lambda number, section: None

    def state(self) -> State:
        return (self.generation,)

    def state_after(self, before: State, transactions: int) -> State:
        return (before[0] + transactions,)  # type: ignore[operator]

    def between(self, before: State, after: State) -> Sequence[int] | None:
        raise NotImplementedError

    def other_variants(self) -> tuple[str, ...]:
        return ()

    async def save(self, family: Family) -> bytes:
        self.saved += 1
        return self.families[family].save().encode()

    async def restore(self, family: Family, text: str) -> None:
        for applied, section in enumerate(part for part in text.split("COMMIT\n") if part):
            self.sections += 1
            try:
                self.on_section(self.sections, section)
                self.families[family].restore(f"{section}COMMIT\n")
            except ValueError as error:
                kind = {"No chain": NotFound, "Too big ": TooBig}.get(str(error)[:8], Refused)
                raise kind(str(error), applied) from error
            self.generation += 1

    def flush_rules(self) -> None:
        """Flush table nat, as another program does with `iptables -F`."""
        for rules in self.families[4].tables["nat"].chains.values():
            rules.clear()
        self.generation += 1


def services(count: int, endpoint: str = "10.244.1.1") -> dict[ObjectKey, ServiceFrontends]:
    return {
        ObjectKey("default", f"s{number}"): ServiceFrontends(
            service=ObjectKey("default", f"s{number}"),
            cluster_ips=(f"10.96.0.{number + 1}",),
            frontends=(
                Frontend(
                    key=FrontendKey(f"10.96.0.{number + 1}", "tcp", 80),
                    owner=f"default/s{number}:http",
                    backends=(Backend(endpoint, 8080, "node1"),),
                ),
            ),
        )
        for number in range(count)
    }


def table_with(found: dict[ObjectKey, ServiceFrontends]) -> FrontendTable:
    table = FrontendTable()
    for key, compiled in found.items():
        table.update(key, compiled)
    return table


def mode_with(kernel: Any) -> IptablesMode:
    return IptablesMode(kernel, SETTINGS)


def assert_right(kernel: FakeKernel, table: FrontendTable) -> None:
    assert not Renderer(SETTINGS).full(table, table.cluster_ips(), {4: kernel.families[4].tables})


async def test_a_sync_in_parts_is_recognized_as_our_own() -> None:
    kernel, table = FakeKernel(20_000), table_with(services(SERVICES))
    mode = mode_with(kernel)

    await mode.sync(table)

    assert kernel.sections > 10
    assert_right(kernel, table)
    saved = kernel.saved
    assert await mode.verify(table, thoroughly=True) is None
    assert kernel.saved == saved, "the generation proves that nobody else changed a rule"


@pytest.mark.parametrize("when", range(2, 60, 4))
async def test_rules_that_another_program_flushes_meanwhile_are_written_again(
    when: int, caplog: pytest.LogCaptureFixture
) -> None:
    kernel, old = FakeKernel(3000), table_with(services(SERVICES // 2, "10.244.2.2"))
    await mode_with(kernel).sync(old)
    kernel.sections, mode, table = 0, mode_with(kernel), table_with(services(SERVICES))
    kernel.on_section = lambda number, _: kernel.flush_rules() if number == when else None

    with caplog.at_level(logging.WARNING):
        await mode.sync(table)
    assert kernel.sections > when
    await mode.verify(table, thoroughly=True)

    assert_right(kernel, table)
    blamed = [record.getMessage() for record in caplog.records if record.name.startswith("bridgehead.proxy.iptables")]
    assert blamed == [], "no Service and no stale chain is to blame"


async def test_a_change_in_parts_is_not_made_from_rules_that_others_may_have_changed() -> None:
    kernel, table = FakeKernel(20_000), table_with(services(SERVICES))
    mode = mode_with(kernel)
    await mode.sync(table)
    kernel.flush_rules()
    updates = [table.update(key, compiled) for key, compiled in services(SERVICES, "10.244.2.2").items()]

    with pytest.raises(Disturbed):
        await mode.apply(updates)
    await mode.sync(table)

    assert_right(kernel, table)


async def test_the_kernels_refusal_is_reported_even_if_others_change_rules_all_the_time() -> None:
    def disturb_and_refuse(_: int, section: str) -> None:
        kernel.generation += 1
        if "10.244.6.6" in section:
            raise ValueError("Invalid argument")

    kernel = FakeKernel(20_000)
    kernel.on_section = disturb_and_refuse
    table = table_with(services(SERVICES))
    key = ObjectKey("default", "s7")
    table.update(key, services(8, "10.244.6.6")[key])

    with pytest.raises(Refused, match="Invalid argument"):
        await mode_with(kernel).sync(table)


async def test_the_kernels_refusal_is_reported_at_once_if_nobody_else_changes_rules() -> None:
    def refuse(_: int, section: str) -> None:
        if "10.244.6.6" in section:
            raise ValueError("Invalid argument")

    kernel = FakeKernel(20_000)
    kernel.on_section = refuse

    with pytest.raises(Refused, match="Invalid argument"):
        await mode_with(kernel).sync(table_with(services(SERVICES, "10.244.6.6")))
    assert kernel.saved == 2, "read once, each family"


async def test_parts_become_smaller_until_the_kernel_takes_them() -> None:
    def limit(_: int, section: str) -> None:
        if section.count("\n") > 160:
            raise ValueError("Too big for the send buffer")

    kernel, table = FakeKernel(300_000), table_with(services(SERVICES * 4))
    kernel.on_section = limit

    await mode_with(kernel).sync(table)

    assert_right(kernel, table)


async def test_a_stale_chain_in_use_is_emptied_even_if_others_change_rules_all_the_time() -> None:
    stale = "KUBE-SVC-AAAAAAAAAAAAAAAA"

    def disturb_and_refuse(_: int, section: str) -> None:
        kernel.generation += 1
        if f"-X {stale}" in section:
            raise ValueError("Device or resource busy")

    kernel, table = FakeKernel(20_000), table_with(services(SERVICES))
    kernel.families[4].tables["nat"].chains[stale] = ["-j DROP"]
    kernel.on_section = disturb_and_refuse

    await mode_with(kernel).sync(table)

    assert kernel.families[4].tables["nat"].chains.pop(stale) == []
    assert_right(kernel, table)
