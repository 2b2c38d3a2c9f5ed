"""Report of the branches of the pure modules that tests take, from the files that `tests.branches` wrote.

    python -m tests.branch_report DIRECTORY [MODULE]

MODULE, a part of a path: list its branches that no test takes. The status is 1 below the floor.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.pure_modules import PURE_MODULES, SOURCE

FLOOR = 95.0  # percent of the branches of all pure modules

Branch = tuple[int, int]  # the line and the next one; 0: the end of the function


@dataclass
class Counted:
    """Branches of one module, of all processes together."""

    is_imported: bool = False
    every: set[Branch] = field(default_factory=set)
    taken: set[Branch] = field(default_factory=set)

    @property
    def missing(self) -> set[Branch]:
        return self.every - self.taken


def read(directory: Path, modules: Iterable[str]) -> dict[str, Counted]:
    """Return what all processes counted of these modules."""
    found = {module: Counted() for module in modules}
    for path in directory.glob("*.json"):
        for module, (taken, not_taken) in json.loads(path.read_text()).items():
            found[module].is_imported = True
            found[module].taken |= {tuple(branch) for branch in taken}
            found[module].every |= {tuple(branch) for branch in taken + not_taken}
    return found


def percent(modules: Iterable[Counted]) -> float:
    """Return the percentage of branches that are taken, of all these modules together; 100 if they have none."""
    taken = every = 0
    for module in modules:
        taken += len(module.taken)
        every += len(module.every)
    return 100 * taken / every if every else 100.0


def report(found: dict[str, Counted], wanted: str = "") -> tuple[list[str], bool]:
    """Return the lines of the report, and whether the floor is reached. A module that no test imports is below it."""
    lines = []
    for name, module in sorted(found.items()):
        if wanted and wanted in name:
            branches = ", ".join(f"{line} -> {following}" for line, following in sorted(module.missing))
            lines.append(f"{name}: {branches or 'every branch is taken'}")
    total = percent(found.values())
    lines.append(f"tests take {total:.1f} % of the branches of {len(found)} pure modules; the floor is {FLOOR:.0f} %")
    ignored = sorted(name for name, module in found.items() if not module.is_imported)
    if has_passed := total >= FLOOR and not ignored:
        return lines, has_passed
    lines.extend(f"no test imports {name}" for name in ignored)
    lines.append("modules below the floor (scripts/coverage MODULE lists the branches that a module lacks):")
    for name, module in sorted(found.items(), key=lambda item: (-len(item[1].missing), item[0])):
        if percent([module]) < FLOOR:
            lines.append(f"  {name}: {percent([module]):.0f} %, {len(module.missing)} branches missing")
    return lines, has_passed


def main(directory: str, wanted: str = "") -> int:
    root = SOURCE.parent
    lines, has_passed = report(read(Path(directory), (str(path.relative_to(root)) for path in PURE_MODULES)), wanted)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0 if has_passed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
