"""Services and the pods they select, against comparing all with all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.endpoints.selected_pods import Memberships
from bridgehead.objects.meta import ObjectKey

labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
keys = st.builds(ObjectKey, st.sampled_from(["x", "y"]), st.sampled_from("pqr"))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("service"), keys, labels),
        st.tuples(st.just("pod"), keys, st.one_of(labels, st.none())),
    ),
    max_size=30,
)


@given(steps)
def test_memberships_follow_every_change(steps):
    memberships = Memberships()
    services: dict[ObjectKey, dict[str, str]] = {}
    pods: dict[ObjectKey, dict[str, str]] = {}
    for kind, key, value in steps:
        if kind == "service":
            services[key] = value
            memberships.set_service(key, value)
        else:
            pods[key] = value
            memberships.set_pod(key, value)
        selected = {
            (service, pod)
            for service, selector in services.items()
            for pod, has in pods.items()
            if selector and has is not None and service.namespace == pod.namespace and selector.items() <= has.items()
        }
        for service in services:
            assert memberships.pods_of(service) == {pod for other, pod in selected if other == service}
        for pod in pods:
            assert memberships.services_of(pod) == {service for service, other in selected if other == pod}


def test_deleted_objects_are_forgotten():
    memberships = Memberships()
    memberships.set_service(ObjectKey("x", "s"), {"a": "1"})
    memberships.set_pod(ObjectKey("x", "p"), {"a": "1", "b": "2"})
    memberships.set_pod(ObjectKey("x", "p"), None)
    memberships.set_service(ObjectKey("x", "s"), {})
    assert not any(vars(memberships).values())
