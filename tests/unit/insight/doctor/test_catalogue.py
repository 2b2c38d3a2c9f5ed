"""The catalogue of causes, and the page that follows it (UPDATE_GOLDENS=1 writes it anew)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridgehead.insight import doctor
from bridgehead.insight.doctor.catalogue import CAUSES, SECTIONS, explain, family_of, position_of, render_page
from tests.unit.goldens import check_golden

PACKAGE = Path(doctor.__file__).parent
PAGE = Path(__file__).parents[4] / "docs" / "troubleshooting.md"


def test_the_page_follows_the_catalogue():
    check_golden(PAGE, render_page())


def test_there_are_enough_causes():
    assert len(CAUSES) >= 40
    assert len(CAUSES) == sum(len(section.causes) for section in SECTIONS)


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.name)
def test_a_row_is_complete(cause):
    assert re.fullmatch(r"([A-Z][a-z]*)+", cause.name)
    assert not cause.title.endswith(".")
    assert cause.explanation.endswith((".", "?"))
    assert len(cause.example.splitlines()) == 2
    assert cause.name in explain(cause)
    assert (PACKAGE / f"{cause.family}.py").exists()


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.name)
def test_a_cause_is_found_in_the_module_of_its_family(cause):
    sources = [PACKAGE / f"{cause.family}.py"]
    if cause.name == "DnsWithoutEndpoints":  # made of the DNS Service's own first cause
        sources = [PACKAGE / "diagnosis.py"]
    assert any(f'"{cause.name}"' in source.read_text() for source in sources)


def test_unknown_causes_come_last():
    assert position_of("Unknown") == len(CAUSES)
    assert family_of("Unknown") == ""
