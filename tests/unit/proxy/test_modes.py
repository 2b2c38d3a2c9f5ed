"""Things of one kind have the same files and entry points: the directories of the proxy modes, compared."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import bridgehead.proxy
from bridgehead.proxy import modes
from bridgehead.proxy.config import MODES
from bridgehead.proxy.errors import ModeUnavailable, NotPermitted
from bridgehead.proxy.mode import Mode
from bridgehead.proxy.modes import open_mode, open_working_mode

ROOT = Path(bridgehead.proxy.__file__).parent
FILES = {"README.md", "__init__.py", "apply.py", "mode.py"}
OF_RULES = {"chains.py", "readback.py", "render.py"}  # of a mode that writes rules of its own
STANDS_ON_ANOTHER = {"userspace"}
# Names that the agent needs of a mode, and those that a mode needs of its own modules.
OF_A_MODE = {name for name, _ in inspect.getmembers(Mode) if not name.startswith("_")}
OF_A_RENDERER = {"change", "full", "chains"}
OF_A_TRANSACTION = {"size"}
NEVER_TOO_BIG = {"ipvs"}  # its rules do not grow; the others send what is too big for the kernel in chunks
OF_A_KERNEL = {"close", "probe"}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def missing(name: str) -> list[str]:
    """The files and entry points that the mode of that name lacks."""
    found = {path.name for path in (ROOT / name).iterdir() if path.is_file()}
    has_rules = name not in STANDS_ON_ANOTHER
    lacking = [f"{name}/{file}" for file in sorted((FILES | OF_RULES if has_rules else FILES) - found)]
    if lacking:
        return lacking
    package = importlib.import_module(f"bridgehead.proxy.{name}")
    classes: list[tuple[type, set[str]]] = [
        (getattr(package, f"{name.capitalize()}Mode"), OF_A_MODE),
        (package.Kernel, OF_A_KERNEL),
    ]
    if has_rules:
        render = importlib.import_module(f"bridgehead.proxy.{name}.render")
        classes += [
            (render.Renderer, OF_A_RENDERER),
            (render.Transaction, OF_A_TRANSACTION | ({"chunks"} if name not in NEVER_TOO_BIG else set())),
        ]
    for cls, wanted in classes:
        lacking += [f"{name}: {cls.__name__}.{method}" for method in sorted(wanted - public(cls) - {"name"})]
    return lacking


def test_directories_of_modes_have_the_same_files_and_entry_points() -> None:
    assert [hole for name in MODES for hole in missing(name)] == []


def test_a_missing_entry_point_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.proxy.test_modes.FILES", FILES | {"nonsense.py"})

    assert missing("nftables") == ["nftables/nonsense.py"]


def test_every_mode_is_registered() -> None:
    directories = {path.parent.name for path in ROOT.glob("*/mode.py")}
    assert directories == set(MODES)


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

    monkeypatch.setattr(modes, "open_mode", opening)


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
    found = modes.describe_missing_families(mode, served, kernel)
    assert found.startswith(text)
    assert bool(found) == bool(text)


async def test_an_unknown_mode_is_refused() -> None:
    text = "'kernelspace' is no proxy mode; iptables, ipvs, nftables and userspace are"
    with pytest.raises(ModeUnavailable, match=text):
        async with open_mode("kernelspace"):
            pass
