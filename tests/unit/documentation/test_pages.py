"""Pages that are made of the code equal it (UPDATE_GOLDENS=1 writes them anew, as `python -m documentation` does)."""

from __future__ import annotations

import re

import pytest
from documentation.pages import PAGES
from documentation.source import ROOT

from tests.unit.goldens import check_golden


@pytest.mark.parametrize("path", PAGES)
def test_a_page_follows_the_code(path: str) -> None:
    check_golden(ROOT / path, PAGES[path]())


def test_every_page_of_the_reference_is_made_or_its_index() -> None:
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "reference").iterdir()}
    assert there - PAGES.keys() == {"docs/reference/index.md"}


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    patterns = re.findall(r"(?:- |: )(\S+\.md)$", navigation, re.MULTILINE)
    shown = {path for pattern in patterns for path in ROOT.glob(pattern)}
    assert set((ROOT / "docs").rglob("*.md")) - shown == set()
