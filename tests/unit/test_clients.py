"""Suites of client libraries: what a report counts, and what is known to fail."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tests.clients.__main__ import Outcome, outcome_of
from tests.clients.projects import PROJECTS, Project

REPORT = """
<testsuites><testsuite>
  <testcase classname="a.b" name="test_one"/>
  <testcase classname="a.b" name="test_two[x]"><failure message="boom">text</failure></testcase>
  <testcase classname="a.b" name="test_three"><error message="no fixture"/></testcase>
  <testcase classname="a.b" name="test_four"><skipped message="not here"/></testcase>
</testsuite></testsuites>
"""


def test_a_report_is_counted() -> None:
    project = Project("a", "1", "", known={"b.test_two[x]": "fails on any cluster"})
    assert outcome_of(project, ElementTree.fromstring(REPORT)) == Outcome(
        passed=1,
        skipped=1,
        failed={"a.b.test_three": "no fixture"},
        known={"a.b.test_two[x]": "fails on any cluster"},
    )


def test_a_project_without_tests_has_a_remark() -> None:
    for project in PROJECTS:
        assert bool(project.tests) != bool(project.remark), project.name
        assert len(project.sha256) == 64
