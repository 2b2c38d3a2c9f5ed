"""The informer against a script of what an API server does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from bridgehead.client import Informer, ListResult, WatchEvent
from bridgehead.client.codec import ListMeta
from bridgehead.client.errors import Forbidden, Gone, Invalid, Unreachable
from bridgehead.objects.core import Pod, PodSpec
from bridgehead.objects.kinds import PODS
from bridgehead.objects.meta import ObjectKey, ObjectMeta
from tests.unit.virtual_time import run_virtual

END = "the server ends the watch"


def pod(name: str, version: int, node: str = "", uid: str = "") -> Pod:
    meta = ObjectMeta(name=name, namespace="d", uid=uid or name, resource_version=str(version))
    return Pod(metadata=meta, spec=PodSpec(node_name=node))


def listed(version: int, *pods: Pod) -> ListResult[Pod]:
    return ListResult(list(pods), ListMeta(str(version)))


def event(type: str, obj: Pod) -> WatchEvent[Pod]:
    return WatchEvent(type, obj)


def bookmark(version: int, annotations: dict[str, str] | None = None) -> WatchEvent[Pod]:
    return WatchEvent(
        "BOOKMARK", Pod(metadata=ObjectMeta(resource_version=str(version), annotations=annotations or {}))
    )


def end_of_objects(version: int) -> WatchEvent[Pod]:
    return bookmark(version, {"k8s.io/initial-events-end": "true"})


class Script:
    """Plays one step for each call: a result or error for a list, a list of events and errors for a watch.

    At its end the informer waits for ever. `calls` notes what was asked: "list", the version watched from, or "initial"
    for a watch that begins with the objects.
    """

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.calls: list[str] = []
        self.times: list[float] = []

    def _next(self, call: str) -> Any:
        self.calls.append(call)
        self.times.append(asyncio.get_running_loop().time())
        return self.steps.pop(0) if self.steps else None

    async def list(self, kind: Any, namespace: str = "", label_selector: str = "", field_selector: str = "") -> Any:
        step = self._next("list")
        if step is None:
            await asyncio.sleep(1e9)
        if isinstance(step, Exception):
            raise step
        return step

    async def watch(
        self,
        kind: Any,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        bookmarks: bool = False,
        initial: bool = False,
    ) -> AsyncGenerator[Any, None]:
        assert bookmarks
        step = self._next("initial" if initial else resource_version)
        if isinstance(step, Exception):
            raise step
        for one in step or ():
            if isinstance(one, Exception):
                raise one
            if one is END:
                return
            yield one
        await asyncio.sleep(1e9)


Change = tuple[str, str]


def play(
    *steps: Any,
    seconds: float = 1000.0,
    check: Callable[[Informer[Pod]], None] = lambda informer: None,
    few: bool = False,
) -> tuple[list[Change], Script]:
    """Changes as handlers saw them, `("+", name)`, `("~", name)` or `("-", name)`, and the script's notes."""

    async def main() -> tuple[list[Change], Script]:
        script = Script(*steps)
        informer = Informer(
            script, PODS, indexes={"node": lambda pod: (pod.spec.node_name,)}, few=few, jitter=lambda: 0.0
        )
        changes: list[Change] = []

        def on_change(old: Pod | None, new: Pod | None) -> None:
            changed = new or old
            assert changed is not None
            changes.append(("+" if old is None else "-" if new is None else "~", changed.metadata.name))
            assert (informer.get(changed.key) is None) == (new is None), "the copy has the change already"

        informer.on_change(on_change)
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(seconds)
        check(informer)
        task.cancel()
        await asyncio.wait([task])
        return changes, script

    return run_virtual(main())


def test_the_informer_has_the_list_and_later_changes():
    def check(informer: Informer[Pod]) -> None:
        assert sorted(obj.metadata.name for obj in informer.items()) == ["b", "c"]
        assert informer.resource_version == "9"
        assert [p.metadata.name for p in informer.by_index("node", "n2")] == ["b"]
        assert informer.by_index("node", "n1") == []

    changes, script = play(
        listed(5, pod("a", 1, "n1"), pod("b", 2, "n1")),
        [
            event("MODIFIED", pod("b", 6, "n2")),
            event("ADDED", pod("c", 7)),
            event("DELETED", pod("a", 8)),
            bookmark(9),
        ],
        check=check,
    )
    assert changes == [("+", "a"), ("+", "b"), ("~", "b"), ("+", "c"), ("-", "a")]
    assert script.calls == ["list", "5"]


def test_a_broken_watch_resumes_from_its_version():
    changes, script = play(
        listed(5, pod("a", 1)),
        [event("ADDED", pod("b", 6)), bookmark(8), Unreachable("reset")],
        [event("ADDED", pod("c", 9)), END],
        [event("MODIFIED", pod("c", 10))],
    )
    assert changes == [("+", "a"), ("+", "b"), ("+", "c"), ("~", "c")]
    assert script.calls == ["list", "5", "8", "9"]


def test_an_unchanged_version_is_no_change():
    changes, _ = play(listed(5, pod("a", 1)), [event("ADDED", pod("a", 1)), event("MODIFIED", pod("a", 6))])
    assert changes == [("+", "a"), ("~", "a")]


def test_an_expired_version_causes_a_relist_and_only_differences_are_delivered():
    changes, script = play(
        listed(5, pod("a", 1), pod("b", 2), pod("c", 3)),
        [Gone(410, "Expired", "too old resource version: 5 (20)")],
        listed(30, pod("a", 1), pod("b", 22), pod("d", 23)),
        [event("ADDED", pod("e", 31))],
    )
    assert changes[3:] == [("-", "c"), ("~", "b"), ("+", "d"), ("+", "e")]
    assert script.calls == ["list", "5", "list", "30"]


def test_a_recreated_object_is_a_deletion_and_an_addition():
    changes, _ = play(listed(5, pod("a", 1)), [Gone(410, "Expired", "")], listed(9, pod("a", 8, uid="other")))
    assert changes == [("+", "a"), ("-", "a"), ("+", "a")]


def test_deleting_an_unknown_object_is_no_change():
    changes, _ = play(listed(5), [event("DELETED", pod("a", 6))])
    assert changes == []


def test_retries_back_off_while_the_server_is_unreachable():
    down = [Unreachable("refused")] * 9
    changes, script = play(*down, listed(5, pod("a", 1)))
    gaps = [after - before for before, after in zip(script.times, script.times[1:], strict=False)][:9]
    assert [round(gap, 3) for gap in gaps] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]
    assert changes == [("+", "a")]


def test_a_server_that_breaks_every_watch_is_retried_with_back_off():
    _, script = play(listed(5), *[[END]] * 1000, seconds=60)
    assert len(script.calls) < 20


def test_long_watches_are_resumed_at_once():
    class Patient(Script):
        async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            self._next(kwargs["resource_version"])
            await asyncio.sleep(300)
            for nothing in ():
                yield nothing

    async def main() -> None:
        script = Patient(listed(5))
        task = asyncio.create_task(Informer(script, PODS, jitter=lambda: 0.0).run())
        await asyncio.sleep(3002)
        task.cancel()
        await asyncio.wait([task])
        assert len(script.calls) == 12

    run_virtual(main())


def test_a_refused_list_is_logged_once_and_retried(caplog):
    caplog.set_level(logging.INFO)
    refusal = Forbidden(403, "Forbidden", "pods is forbidden")
    changes, _ = play(*[refusal] * 5, listed(5, pod("a", 1)))
    assert changes == [("+", "a")]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_failing_handler_does_not_stop_the_others(caplog):
    async def main() -> None:
        informer = Informer(Script(listed(5, pod("a", 1)), [event("ADDED", pod("b", 6))]), PODS)
        seen = []

        def bad(old: Pod | None, new: Pod | None) -> None:
            raise RuntimeError("bad handler")

        informer.on_change(bad)
        informer.on_change(lambda old, new: seen.append(new))
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert len(seen) == 2

    run_virtual(main())
    assert len(caplog.records) == 2


def test_late_handlers_and_indexes_see_existing_objects():
    def check(informer: Informer[Pod]) -> None:
        seen = []
        informer.on_change(lambda old, new: seen.append((old, new)))
        assert [(old, new and new.key) for old, new in seen] == [(None, ObjectKey("d", "a"))]
        informer.add_index("uid", lambda pod: (pod.metadata.uid,))
        assert len(informer.by_index("uid", "a")) == 1

    play(listed(5, pod("a", 1)), check=check)


# --- One request for the objects and the watch ---------------------------------------------------------------------


def test_few_objects_come_with_the_watch():
    changes, script = play(
        [
            event("ADDED", pod("a", 1)),
            event("ADDED", pod("b", 2)),
            end_of_objects(5),
            event("DELETED", pod("a", 6)),
            END,
        ],
        few=True,
    )
    assert changes == [("+", "a"), ("+", "b"), ("-", "a")]
    assert script.calls == ["initial", "6"]


def test_objects_are_shown_when_all_have_come():
    changes, script = play([event("ADDED", pod("a", 1))], seconds=1.0, few=True)
    assert changes == []
    assert script.calls == ["initial"]


def test_after_a_short_history_the_objects_come_with_a_watch_again():
    changes, script = play(
        [event("ADDED", pod("a", 1)), event("ADDED", pod("b", 2)), end_of_objects(5), END],
        Gone(410, "Expired", "too old"),
        [event("ADDED", pod("b", 2)), end_of_objects(9)],
        few=True,
    )
    assert changes == [("+", "a"), ("+", "b"), ("-", "a")]
    assert script.calls == ["initial", "5", "initial"]


def test_a_watch_that_breaks_before_all_objects_have_come_begins_again():
    changes, script = play(
        [event("ADDED", pod("a", 1)), Unreachable("away")], [event("ADDED", pod("b", 2)), end_of_objects(5)], few=True
    )
    assert changes == [("+", "b")]
    assert script.calls == ["initial", "initial"]


@pytest.mark.parametrize(
    "answer",
    [
        Invalid(
            422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        ),
        [event("ADDED", pod("a", 1))],  # of a server that does not know the option, and never marks the end
    ],
)
def test_objects_are_listed_where_a_watch_does_not_begin_with_them(answer):
    changes, script = play(answer, listed(5, pod("a", 1)), [Gone(410, "Expired", "too old")], listed(7), few=True)
    assert changes == [("+", "a"), ("-", "a")]
    assert script.calls == ["initial", "list", "5", "list", "7"]


def test_a_list_that_the_caller_made_is_watched_from():
    async def main() -> Script:
        script = Script()
        informer = Informer(script, PODS)
        informer.take(listed(5, pod("a", 1)))
        await informer.wait_synced()
        assert [one.metadata.name for one in informer.items()] == ["a"]
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.wait([task])
        return script

    assert run_virtual(main()).calls == ["5"]
