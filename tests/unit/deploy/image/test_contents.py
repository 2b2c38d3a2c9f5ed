"""The parts in the image import nothing that the image lacks."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

from deploy.image import contents

import bridgehead

SOURCE = Path(bridgehead.__file__).parent
PARTS = ("proxy", "dns", "balancer")
IMPORTS = re.compile(r"^[ \t]*(?:from ([\w.]+) import ([^\n(]+|\([^)]*\))|import ([\w.]+))", re.MULTILINE)


def imported(module: Path) -> set[str]:
    """All that a module imports, also inside functions: full names of modules, and of what may be one."""
    found = set()
    package = ".".join(("bridgehead", *module.parent.relative_to(SOURCE).parts))
    for origin, names, plain in IMPORTS.findall(module.read_text("utf-8")):
        base = plain or (f"{package}.{origin[1:]}".rstrip(".") if origin.startswith(".") else origin)
        found |= {base} | {f"{base}.{name}" for name in re.findall(r"\w+", names)}
    return found


def module_file(name: str) -> Path | None:
    path = SOURCE.joinpath(*name.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def test_the_parts_import_nothing_that_is_left_out() -> None:
    waiting = [SOURCE / "cli" / f"{part}.py" for part in (*PARTS, "speaker")]
    waiting += [path for part in PARTS for path in (SOURCE / part).rglob("*.py")]
    seen: set[Path] = set()
    others = set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        for name in imported(module):
            if not name.startswith("bridgehead."):
                others.add(name.split(".")[0])
            elif (file := module_file(name)) is not None:
                waiting.append(file)
    names = {path.relative_to(SOURCE).as_posix() for path in seen}
    assert [name for name in names if name.startswith(tuple(f"{part}/" for part in contents.PARTS.parts))] == []
    owners = metadata.packages_distributions()
    found = {
        re.sub("[._]", "-", owner.lower())
        for name in others - sys.stdlib_module_names
        for owner in owners.get(name, ())
    }
    assert {"aiohttp", "msgspec", "exabgp"} <= found  # the search finds what there is
    assert found & set(contents.PARTS.packages) == set()


def test_what_is_left_out_exists() -> None:
    assert all((SOURCE / part).is_dir() for part in contents.PARTS.parts)
    required = {
        re.split(r"[^\w.-]", line)[0].lower().replace(".", "-") for line in metadata.requires("bridgehead") or ()
    }
    assert set(contents.PARTS.packages) <= required
