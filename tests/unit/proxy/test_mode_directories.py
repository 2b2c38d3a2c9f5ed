"""Things of one kind have the same files and entry points: the directories of the proxy modes, compared."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import bridgehead.proxy
from bridgehead.proxy.config import MODES
from bridgehead.proxy.mode import Mode

ROOT = Path(bridgehead.proxy.__file__).parent
FILES = {"README.md", "__init__.py", "apply.py", "mode.py"}
OF_RULES = {"chains.py", "readback.py", "render.py", "transaction.py"}  # of a mode that writes rules of its own
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
        render, transaction = (
            importlib.import_module(f"bridgehead.proxy.{name}.{part}") for part in ("render", "transaction")
        )
        classes += [
            (render.Renderer, OF_A_RENDERER),
            (transaction.Transaction, OF_A_TRANSACTION | ({"chunks"} if name not in NEVER_TOO_BIG else set())),
        ]
    for cls, wanted in classes:
        lacking += [f"{name}: {cls.__name__}.{method}" for method in sorted(wanted - public(cls) - {"name"})]
    return lacking


def test_directories_of_modes_have_the_same_files_and_entry_points() -> None:
    assert [hole for name in MODES for hole in missing(name)] == []


def test_a_missing_entry_point_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.proxy.test_mode_directories.FILES", FILES | {"nonsense.py"})

    assert missing("nftables") == ["nftables/nonsense.py"]


def test_every_mode_is_registered() -> None:
    directories = {path.parent.name for path in ROOT.glob("*/mode.py")}
    assert directories == set(MODES)
