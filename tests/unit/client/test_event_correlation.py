from bridgehead.client.event_correlation import BURST, FOLD_AFTER, FOLDED_PREFIX, Correlator, Occurrence
from bridgehead.objects.meta import ObjectReference

POD = ObjectReference(api_version="v1", kind="Pod", name="a", namespace="blue", uid="1", resource_version="5")
NODE = ObjectReference(api_version="v1", kind="Node", name="n", uid="2")


def occurrence(at: float, message: str = "m", about: ObjectReference = POD, reason: str = "Pulled") -> Occurrence:
    return Occurrence(about, "Normal", reason, message, at)


def test_a_repeated_event_raises_the_count():
    correlator = Correlator()
    first, second = correlator.correlate(occurrence(1000)), correlator.correlate(occurrence(1010))
    assert first is not None
    assert second is not None
    assert (first.count, second.count) == (1, 2)
    assert (first.name, first.first) == (second.name, second.first)
    assert first.namespace == "blue"
    newer = ObjectReference(api_version="v1", kind="Pod", name="a", namespace="blue", uid="1", resource_version="6")
    third = correlator.correlate(occurrence(1020, about=newer))
    assert third is not None
    assert third.count == 3, "the object's version does not matter"


def test_a_different_event_is_not_counted_together():
    correlator = Correlator()
    field = ObjectReference(api_version="v1", kind="Pod", name="a", namespace="blue", uid="1", field_path="spec")
    seen = [
        correlator.correlate(occurrence(1000)),
        correlator.correlate(occurrence(1001, message="other")),
        correlator.correlate(occurrence(1002, reason="Created")),
        correlator.correlate(occurrence(1003, about=NODE)),
        correlator.correlate(occurrence(1004, about=field)),
    ]
    assert [one.count for one in seen if one] == [1] * 5
    assert len({one.name for one in seen if one}) == 5


def test_events_about_objects_without_a_namespace_are_in_default():
    event = Correlator().correlate(occurrence(1000, about=NODE))
    assert event is not None
    assert event.namespace == "default"


def test_an_object_cannot_cause_a_flood_of_events():
    correlator = Correlator()
    seen = [correlator.correlate(occurrence(1000, reason=f"R{number}")) for number in range(100)]
    assert len([one for one in seen if one]) == BURST
    assert correlator.correlate(occurrence(1000, about=NODE)), "others are not hurt"
    assert correlator.correlate(occurrence(1000 + 300, reason="Later")), "one more every five minutes"
    assert correlator.correlate(occurrence(1000 + 301, reason="Later")) is None


def test_dropped_events_are_counted():
    correlator = Correlator()
    found = [correlator.correlate(occurrence(1000 + number)) for number in range(80)]
    seen = [one for one in found if one]
    assert [one.count for one in seen] == list(range(1, BURST + 1))
    later = correlator.correlate(occurrence(1400))
    assert later is not None
    assert (later.count, later.name, later.first) == (81, seen[0].name, 1000)


def test_an_event_is_written_late_with_its_count():
    correlator = Correlator()
    for number in range(100):
        correlator.correlate(occurrence(1000, reason=f"R{number}"))
    for number in range(7):
        assert correlator.correlate(occurrence(1001 + number, reason="BackOff")) is None
    written = correlator.correlate(occurrence(1400, reason="BackOff"))
    assert written is not None
    assert written.count == 8


def test_events_that_differ_only_in_their_message_are_aggregated():
    correlator = Correlator()
    seen = [correlator.correlate(occurrence(1000 + number, message=f"try {number}")) for number in range(15)]
    messages = [one.occurrence.message for one in seen if one]
    assert messages[: FOLD_AFTER - 1] == [f"try {number}" for number in range(FOLD_AFTER - 1)]
    assert messages[FOLD_AFTER - 1 :] == [f"{FOLDED_PREFIX}try {number}" for number in range(FOLD_AFTER - 1, 15)]
    folded = [one for one in seen if one][FOLD_AFTER - 1 :]
    assert [one.count for one in folded] == [1, 2, 3, 4, 5, 6]
    assert len({one.name for one in folded}) == 1
