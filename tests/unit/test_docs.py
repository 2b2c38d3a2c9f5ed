"""The documentation names what there is: links, files, modules, commands with their options, targets of make."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from bridgehead import cli

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bridgehead"
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *SOURCE.rglob("README.md")], key=lambda path: path.parts
)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
# Manifests without a directory are the reader's, and what begins with a slash is the machine's.
FILE = re.compile(r"`((?:[\w-][\w./-]*)?\w\.(?:py|md)|[\w-]+/[\w./-]+\.[a-z]{2,4})`")
# Arguments of a command line: the rest of what is in backquotes or, indented or after a prompt, of the line.
COMMAND = re.compile(
    r"`bridgehead ([a-z]+[^`]*)`|^(?: {4,}(?:[$#] )?|\$ )(?:\.venv/bin/)?bridgehead ([a-z]+.*)$", re.MULTILINE
)
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
MAKE = re.compile(r"`make ([a-z][a-z0-9-]*)|^ {4}(?:\$ )?make ([a-z][a-z0-9-]*)", re.MULTILINE)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


@cache
def source_paths() -> set[str]:
    """Return the paths of the source's files and directories, relative to every directory that holds them."""
    paths = (path.relative_to(SOURCE).parts for path in SOURCE.rglob("*"))
    return {"/".join(parts[start:]) for parts in paths for start in range(len(parts))}


@each_page
def test_links_and_files_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for link in LINK.findall(text):
        assert (page.parent / link).exists(), link
    for name in FILE.findall(text):
        if name.startswith(("STATE/", "dist/")):  # in the state directory of a lab, or built
            continue
        candidates = (ROOT / name, page.parent / name, SOURCE / name)
        assert any(candidate.exists() for candidate in candidates) or name in source_paths(), name


@each_page
def test_documented_commands_accept_their_arguments(page: Path) -> None:
    for quoted, shown in COMMAND.findall(page.read_text("utf-8")):
        line = (quoted or shown).partition(" #")[0].partition("   ")[0]
        [name] = re.findall(r"^[a-z]+(?:-[a-z]+)*", line)
        assert name in cli.COMMANDS, line
        own = re.split(r" -- | \| ", line)[0]  # what follows is the command of `exec`, or another one
        known = {option for param in cli.load_command(name).params for option in (*param.opts, *param.secondary_opts)}
        for option in OPTION.findall(own):
            assert option in known | {"-h", "--help"}, line


@each_page
def test_documented_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for quoted, shown in MAKE.findall(page.read_text("utf-8")):
        assert (quoted or shown) in targets


def test_the_drawing_of_packages_matches_the_source() -> None:
    """Each line of the drawing begins with a package or module; indented names are inside it."""
    drawing = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("    src/bridgehead/\n")[2]
    drawing = drawing.partition("\n\n")[0]
    drawn, owner = set(), ""
    for line in drawing.splitlines():
        if found := re.match(r" {6}(\w+(?:/|\.py))", line):
            owner = found[1]
            drawn.add(owner.rstrip("/"))
            assert (SOURCE / owner).exists(), owner
        for name in re.findall(r"\b[a-z_]+(?:\.py|/)(?=[\s,·:]|$)", line):
            assert any(base.exists() for base in (SOURCE / name, SOURCE / owner / name)), f"{owner} {name}"
    there = {
        path.name
        for path in SOURCE.iterdir()
        if path.name != "__init__.py" and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    assert drawn == there


# --- Lists of modules -----------------------------------------------------------------------------------------------


def unlisted(text: str, modules: set[str], *, always: bool = False) -> set[str]:
    """Return the modules that a list lacks. A text that names two thirds of them is a list."""
    named = modules & set(re.findall(r"\w+", text))
    return modules - named if always or 3 * len(named) >= 2 * len(modules) else set()


def test_lists_of_modules_are_complete() -> None:
    """In `__init__` and README.md; in the API server, each `__init__` has a list."""
    lacking = {}
    for init in SOURCE.rglob("__init__.py"):
        package, readme = init.parent, init.with_name("README.md")
        modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
        docstring = ast.get_docstring(ast.parse(init.read_text("utf-8"))) or ""
        if missing := unlisted(docstring, modules, always="apiserver" in package.relative_to(SOURCE).parts):
            lacking[str(init.relative_to(SOURCE))] = missing
        if readme.exists() and (missing := unlisted(readme.read_text("utf-8"), modules)):
            lacking[str(readme.relative_to(SOURCE))] = missing
    assert lacking == {}


def test_the_check_of_lists_finds_what_they_lack() -> None:
    assert unlisted("`a.py` and b", {"a", "b", "c"}) == {"c"}
    assert unlisted("only a", {"a", "b", "c"}) == set()
    assert unlisted("only a", {"a", "b", "c"}, always=True) == {"b", "c"}
