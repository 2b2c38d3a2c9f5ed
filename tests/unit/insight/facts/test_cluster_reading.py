"""Readings of a cluster: kinds that fail, and Services that are asked for by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridgehead.client.codec import ListMeta, ListResult
from bridgehead.client.errors import ClientError, Forbidden, NotFound, Unreachable
from bridgehead.insight.facts.cluster_reading import read_cluster
from bridgehead.insight.findings import Unseen
from bridgehead.objects.core import Pod, Service, ServiceSpec
from bridgehead.objects.meta import ObjectMeta

GONE = NotFound(404, "NotFound", "no such kind")


@dataclass
class Client:
    """An API that has `pods` in pages of one, and one Service. `fail`: raises for some plurals. `asked`: selectors."""

    pods: list[Pod] = field(default_factory=list)
    fail: Callable[[str], ClientError | None] = lambda plural: None
    hangs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    asked: dict[str, set[str]] = field(default_factory=dict)

    async def list(self, kind: Any, namespace: str = "", **options: Any) -> Any:
        await self._check(kind.plural)
        selector = options.get("label_selector", "") or options.get("field_selector", "")
        if namespace != "kube-system":
            self.asked.setdefault(kind.plural, set()).add(selector)
        if kind.plural == "services":
            service = Service(
                metadata=ObjectMeta(name="web", namespace="shop"), spec=ServiceSpec(selector={"app": "web"})
            )
            return ListResult([service])
        if kind.plural == "pods" and namespace == "shop":
            if selector:
                return ListResult([each for each in self.pods if each.metadata.labels])
            return ListResult(self.pods[:1], ListMeta(continue_="more" if len(self.pods) > 1 else ""))
        return ListResult([])

    async def request(self, method: str, path: str) -> Any:
        if path == "/apis":
            return {"groups": [{"name": name} for name in self.groups]}
        await self._check(path.rpartition("/")[2])
        return {"items": []}

    async def _check(self, plural: str) -> None:
        if plural in self.hangs:
            await asyncio.Event().wait()
        if error := self.fail(plural):
            raise error


def pod(name: str, **labels: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="shop", labels=labels))


def read(client: Client, *arguments: Any, seconds: float = 20.0) -> Any:
    return asyncio.run(read_cluster(client, *arguments, seconds=seconds))  # type: ignore[arg-type]


@pytest.mark.parametrize("plural", ["pods", "nodes", "ingresses", "endpointslices"])
def test_a_kind_that_does_not_answer_is_unseen(plural: str) -> None:
    state = read(Client(hangs=(plural,)), seconds=0.2)
    assert [each.what for each in state.unseen] == [plural]
    assert not state.has_seen(plural)
    assert len(state.services) == 1
    state = read(Client(fail=lambda each: Unreachable("reset") if each == plural else None))
    assert state.unseen == (Unseen(plural, "reset"),)


def test_an_api_that_answers_nothing_is_an_error() -> None:
    with pytest.raises(Unreachable, match="reset"):
        read(Client(fail=lambda _: Unreachable("reset")))


def test_kinds_that_the_cluster_need_not_have_are_not_missed() -> None:
    optional = ("servicecidrs", "ipaddresspools", "eips")
    assert read(Client(fail=lambda each: GONE if each in optional else None)).unseen == ()
    forbidden = Client(fail=lambda each: Forbidden(403, "Forbidden", "no") if each in optional[1:] else None)
    assert read(forbidden).unseen == ()
    forbidden.groups = ("metallb.io",)
    assert read(forbidden).unseen == (Unseen("ipaddresspools", "no"),)


def test_of_a_named_service_only_its_objects_are_read() -> None:
    client = Client([pod("other"), pod("web-1", app="web")])
    state = read(client, "shop", ["web"])
    assert {key.name for key in state.pods} == {"other", "web-1"}
    assert client.asked["pods"] == {"", "app=web"}
    assert client.asked["endpoints"] == {"metadata.name=web"}
    assert client.asked["endpointslices"] == {"kubernetes.io/service-name in (web)"}
    assert [each.what for each in state.unseen] == ["the other pods of shop"]
    assert state.has_seen("pods", "shop")


def test_all_pods_of_a_small_namespace_are_read() -> None:
    client = Client([pod("other")])
    assert read(client, "shop", ["web"]).unseen == ()
    assert client.asked["pods"] == {""}
