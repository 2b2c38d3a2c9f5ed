"""Indexes that follow every change are those that would be built from scratch."""

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.client.informer_cache import InformerCache
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey, ObjectMeta

NAMES = ("a", "b", "c")
VALUES = ("x", "y", "z")

steps = st.lists(
    st.tuples(
        st.sampled_from(("put", "remove", "replace_all")),
        st.lists(
            st.tuples(st.sampled_from(NAMES), st.frozensets(st.sampled_from(VALUES)), st.integers(0, 1)), max_size=3
        ),
    ),
    max_size=12,
)


@given(steps)
def test_indexes_and_handlers_follow_every_change(steps):
    store = InformerCache("pods", {"value": lambda pod: pod.metadata.labels.keys()})
    mirror: dict[ObjectKey, Pod] = {}

    def on_change(old, new):
        assert mirror.get((new or old).key) is old, "`old` is what was told before"
        if new is None:
            assert old is not None
            del mirror[old.key]
        else:
            mirror[new.key] = new

    store.on_change(on_change)
    version = 0
    for step, pods in steps:
        made = []
        for name, labels, generation in pods:
            version += 1
            meta = ObjectMeta(
                name=name, uid=f"{name}{generation}", resource_version=str(version), labels=dict.fromkeys(labels, "")
            )
            made.append(Pod(metadata=meta))
        if step == "replace_all":
            store.replace_all(made)
        for pod in made:
            if step == "put":
                store.put(pod)
            elif step == "remove":
                store.remove(pod.key)
        assert {obj.key: obj for obj in store.items()} == mirror
        for value in VALUES:
            expected = {key for key, pod in mirror.items() if value in pod.metadata.labels}
            found = [pod.key for pod in store.by_index("value", value)]
            assert len(found) == len(expected)
            assert set(found) == expected
