"""The mode that serves on a node that cannot use every mode."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from bridgehead.proxy import mode_choice
from bridgehead.proxy.config import MODES
from bridgehead.proxy.errors import ModeUnavailable, NotPermitted
from bridgehead.proxy.mode_choice import open_mode, open_working_mode


@dataclass
class Usable:
    """A mode that this node can use."""

    name: str


def only(monkeypatch: pytest.MonkeyPatch, **errors: ModeUnavailable | None) -> None:
    """Let modes open that have no error here; the real `open_mode` has those of unknown modes."""

    @contextlib.asynccontextmanager
    async def opening(name: str, **options: object) -> AsyncIterator[object]:
        if name not in MODES:
            async with open_mode(name):
                pass
        if (error := errors[name]) is not None:
            raise error
        yield Usable(name)

    monkeypatch.setattr(mode_choice, "open_mode", opening)


NO_NFT = ModeUnavailable("the nft command is not here: install the package nftables")
NO_IPTABLES = ModeUnavailable("the iptables commands are not here: install the package iptables")
NO_IPVS = ModeUnavailable("this kernel has no IPVS")


@pytest.mark.parametrize(
    ("wanted", "errors", "used", "problem"),
    [
        ("iptables", {"iptables": None}, "iptables", ""),
        (
            "iptables",
            {"iptables": NO_IPTABLES, "nftables": None},
            "nftables",
            f"mode iptables cannot be used on this node: {NO_IPTABLES}",
        ),
        (
            "nftables",
            {"iptables": None, "nftables": NO_NFT},
            "iptables",
            f"mode nftables cannot be used on this node: {NO_NFT}",
        ),
        (
            "userspace",
            {"userspace": NO_NFT, "nftables": NO_NFT, "iptables": None},
            "iptables",
            f"modes userspace and nftables cannot be used on this node: {NO_NFT}",
        ),
        ("ipvs", {"ipvs": NO_IPVS, "iptables": None}, "iptables", f"mode ipvs cannot be used on this node: {NO_IPVS}"),
        (
            "ipvs",
            {"ipvs": NO_IPVS, "iptables": NO_IPTABLES, "nftables": None},
            "nftables",
            f"mode ipvs cannot be used on this node: {NO_IPVS}; "
            f"mode iptables cannot be used on this node: {NO_IPTABLES}",
        ),
        (
            "nftable",
            {"nftables": None},
            "nftables",
            "'nftable' is no proxy mode; iptables, ipvs, nftables and userspace are; did you mean \"nftables\"?",
        ),
        (
            "nonsense",
            {"nftables": NO_NFT, "iptables": None},
            "iptables",
            "'nonsense' is no proxy mode; iptables, ipvs, nftables and userspace are; "
            f"mode nftables cannot be used on this node: {NO_NFT}",
        ),
    ],
)
async def test_another_mode_serves_where_the_wanted_one_cannot(
    monkeypatch: pytest.MonkeyPatch, wanted: str, errors: dict[str, ModeUnavailable | None], used: str, problem: str
) -> None:
    only(monkeypatch, **errors)

    async with open_working_mode(wanted) as opened:
        assert (opened.mode.name, opened.wanted, opened.problem) == (used, wanted, problem)


async def test_a_node_that_can_use_no_mode_names_all_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, iptables=NO_IPTABLES, nftables=NO_NFT)

    with pytest.raises(ModeUnavailable, match=f"{NO_IPTABLES}; mode nftables cannot be used on this node: {NO_NFT}"):
        async with open_working_mode("iptables"):
            pass


async def test_a_missing_permission_is_the_only_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, iptables=NotPermitted("CAP_NET_ADMIN is needed"), nftables=NotPermitted("likewise"))

    with pytest.raises(NotPermitted) as caught:
        async with open_working_mode("iptables"):
            pass
    assert str(caught.value) == "CAP_NET_ADMIN is needed"


@pytest.mark.parametrize(
    ("mode", "served", "kernel", "text"),
    [
        ("iptables", (4, 6), (4, 6), ""),
        ("iptables", (4,), (4,), ""),
        ("iptables", (4,), (4, 6), "mode iptables cannot serve IPv6 on this node: install the package iptables with"),
        ("nftables", (6,), (4, 6), "mode nftables cannot serve IPv4 on this node: the kernel's nftables lacks what"),
    ],
)
def test_families_that_only_the_kernel_has_are_a_problem(
    mode: str, served: tuple[int, ...], kernel: tuple[int, ...], text: str
) -> None:
    found = mode_choice.describe_missing_families(mode, served, kernel)
    assert found.startswith(text)
    assert bool(found) == bool(text)


async def test_an_unknown_mode_is_refused() -> None:
    text = "'kernelspace' is no proxy mode; iptables, ipvs, nftables and userspace are"
    with pytest.raises(ModeUnavailable, match=text):
        async with open_mode("kernelspace"):
            pass
