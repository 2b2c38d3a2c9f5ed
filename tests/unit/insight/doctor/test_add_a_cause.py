"""The example of docs/recipes/add-a-cause.md, added to the checks of doctor."""

from __future__ import annotations

import pytest

from bridgehead.insight.doctor import catalogue, diagnosis
from bridgehead.insight.doctor.report import render_text
from tests.unit.insight.generated_clusters import World, base
from tests.unit.recipes import example_of


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> catalogue.Cause:
    module = example_of("add-a-cause.md")
    cause: catalogue.Cause = module.CAUSE
    assert cause.name not in catalogue.CAUSES
    monkeypatch.setitem(catalogue.CAUSES, cause.name, cause)
    monkeypatch.setattr(diagnosis, "SERVICE_CHECKS", (*diagnosis.SERVICE_CHECKS, module.check_published_pods))
    return cause


def _broken() -> World:
    world = base()
    world.change_service("web", publish_not_ready_addresses=True)
    world.set_unready(world.pods_of("web")[0])
    return world


def test_doctor_names_the_cause(example: catalogue.Cause) -> None:
    found = diagnosis.diagnose(_broken().facts())
    assert [(each.cause, each.subject) for each in found.verdicts] == [(example.name, "service/default/web")]
    text = render_text(found)
    assert "service/default/web is degraded: UnreadyPodsPublished" in text
    assert '\'{"spec":{"publishNotReadyAddresses":false}}\'' in text


def test_a_healthy_cluster_does_not_have_it(example: catalogue.Cause) -> None:
    assert diagnosis.diagnose(base().facts()).verdicts == ()
    world = base()
    world.change_service("web", publish_not_ready_addresses=True)
    assert diagnosis.diagnose(world.facts()).verdicts == ()
