"""Decisions about Services that get no address, whatever pools there are."""

from __future__ import annotations

from bridgehead.balancer.allocation import Pending, PendingReason
from bridgehead.balancer.controller.service_refusals import not_configured, with_problem, wrong_class
from bridgehead.objects.core import Service, ServiceSpec
from bridgehead.objects.meta import ObjectMeta

WEB = Service(metadata=ObjectMeta(name="web", namespace="default"), spec=ServiceSpec(load_balancer_class="a.org/b"))


def test_a_service_waits_for_a_valid_configuration():
    decision = not_configured(WEB, "pools overlap")
    assert decision.pending == Pending(
        PendingReason.INVALID_CONFIGURATION, "the configuration is invalid: pools overlap"
    )
    (note,) = decision.notes
    assert note.message == 'Failed to allocate IP for "default/web": the configuration is invalid: pools overlap'


def test_a_service_of_another_class_is_left_alone():
    texts = [wrong_class(WEB, own).notes[0].message for own in ("", "c.org/d")]
    assert texts == [
        'loadBalancerClass is "a.org/b"; this balancer serves Services without a class',
        'loadBalancerClass is "a.org/b"; this balancer serves "c.org/d"',
    ]


def test_a_service_that_waits_learns_that_new_pools_do_not_count():
    pending = with_problem(Pending(PendingReason.UNKNOWN_POOL, 'unknown pool "new"'), "pools overlap")
    text = 'unknown pool "new"; the last valid configuration is in force, because of: pools overlap'
    assert pending == Pending(PendingReason.UNKNOWN_POOL, text)
