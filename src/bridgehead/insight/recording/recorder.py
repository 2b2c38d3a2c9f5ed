"""Records the objects of a cluster and their changes, and the states of its nodes' kernels."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, Forbidden, NotFound, Unauthorized, Unreachable
from bridgehead.insight.facts import old_slices
from bridgehead.insight.facts.network_reading import ALL, read_network
from bridgehead.insight.facts.network_state import RULES, Section
from bridgehead.insight.facts.served_groups import is_served
from bridgehead.insight.findings import Unseen, printable
from bridgehead.insight.network_namespaces import NetworkNamespaces, NotEntered
from bridgehead.objects.kinds import ENDPOINT_SLICES

from .cleaning import cleaned
from .files import Full, TooLong
from .format import EndEntry, Entry, NetworkEntry, ObjectEntry, UnseenEntry, check_object
from .redaction import Redaction
from .sources import SOURCES, Source

Json = dict[str, Any]
Change = Literal["added", "modified", "deleted"]
LIST_SECONDS = 60.0  # for the first list of a kind
_PAGE = 500
_RETRY_SECONDS = 1.0
_KERNEL_SECONDS = 3.0  # between two states of one node
_CHANGES: Mapping[object, Change] = {"ADDED": "added", "MODIFIED": "modified", "DELETED": "deleted"}


@dataclass
class Recorded:
    """Counts of what was recorded. `skipped`: objects that are invalid or too large."""

    objects: Counter[str] = field(default_factory=Counter)  # at the beginning, by plural
    changes: int = 0
    kernel_states: int = 0
    skipped: int = 0
    seconds: float = 0.0
    is_cut: bool = False
    unseen: list[Unseen] = field(default_factory=list)


class Recorder:
    """`add` appends an entry, and raises Full and TooLong. `namespace`: "" for all.

    `namespaces`: those whose kernels are recorded; None: without kernels.
    """

    def __init__(
        self,
        client: ApiClient,
        add: Callable[[Entry], None],
        *,
        namespace: str = "",
        redaction: Redaction | None = None,
        namespaces: NetworkNamespaces | None = None,
    ) -> None:
        self._client = client
        self._add = add
        self._namespace = namespace
        self._redaction = redaction
        self._namespaces = namespaces
        self._began = time.monotonic()
        self._nodes: set[str] = set()
        self._changed_nodes: dict[str, asyncio.Event] = {}
        self._has_answer = False
        self._failure: Unreachable | None = None
        self.recorded = Recorded()

    async def run(self, stop: asyncio.Event, on_begin: Callable[[Recorded], None]) -> Recorded:
        """Record until `stop` is set, or a limit of the format is reached. `on_begin`: after the first lists.

        Raises Unreachable and Unauthorized before the first lists are complete.
        """
        follows = [_Follow(self._client, source, self._path(source), self._on_object) for source in SOURCES]
        try:
            followed = await self._begin(follows)
            on_begin(self.recorded)
            await self._follow(followed, stop)
        except* Full:
            self.recorded.is_cut = True
        self.recorded.seconds = self._now()
        return self.recorded

    async def _begin(self, follows: list[_Follow]) -> list[_Follow]:
        """Record what there is at the beginning. Returns the kinds that can be followed."""
        listed = await asyncio.gather(*map(self._list, follows))
        if not self._has_answer and self._failure is not None:
            raise self._failure
        await self._read_nodes()
        return [follow for follow, is_listed in zip(follows, listed, strict=True) if is_listed]

    def end(self) -> EndEntry:
        """Return the last entry."""
        return EndEntry(at=self._now(), is_cut=self.recorded.is_cut)

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 6)

    def _path(self, source: Source) -> str:
        namespace = source.namespace or (self._namespace if source.is_namespaced else "")
        return source.path(namespace)

    async def _list(self, follow: _Follow) -> bool:
        """List the objects of a kind for the first time. Returns whether it can be followed."""
        source = follow.source
        try:
            async with asyncio.timeout(LIST_SECONDS):
                await self._list_any_version(follow)
        except Unauthorized:
            raise
        except (Unreachable, TimeoutError) as error:
            why = str(error) or f"the API server did not list them within {LIST_SECONDS:g} s"
            self._failure = self._failure or Unreachable(why)
            self._see_not(source.plural, printable(why))
            return False
        except NotFound:
            self._has_answer = True
            if not source.is_optional:
                self._see_not(source.plural, "the cluster does not have this kind")
            return False
        except ClientError as error:
            self._has_answer = True
            is_missing = source.is_optional and isinstance(error, Forbidden)
            if not is_missing or await is_served(self._client, source.api_version.partition("/")[0]):
                self._see_not(source.plural, printable(str(error)))
            return False
        self._has_answer = True
        return True

    async def _list_any_version(self, follow: _Follow) -> None:
        """List a kind; EndpointSlices of a cluster before Kubernetes 1.21 are those of v1beta1, recorded as of v1."""
        try:
            await follow.list()
        except NotFound:
            if follow.source.plural != ENDPOINT_SLICES.plural:
                raise
            follow.read_from(old_slices.path(self._namespace), old_slices.to_v1)
            await follow.list()

    def _see_not(self, what: str, why: str) -> None:
        unseen = Unseen(what, why)
        if unseen not in self.recorded.unseen:
            self.recorded.unseen.append(unseen)
            # The reason names the user, and perhaps hosts.
            hidden = Unseen(what, "it could not be read") if self._redaction else unseen
            self._add(UnseenEntry(at=self._now(), unseen=hidden))

    async def _follow(self, follows: list[_Follow], stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(follow.run()) for follow in follows]
            if self._namespaces is not None:
                tasks += [group.create_task(self._follow_node(self._namespaces, node)) for node in sorted(self._nodes)]
            await stop.wait()
            await self._read_nodes()  # while changes are still recorded: kernels are not ahead of them
            for task in tasks:
                task.cancel()

    def _on_object(self, source: Source, change: Change, obj: Json, is_first: bool) -> None:
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if source.names and name not in source.names:
            return
        if source.kind == "Namespace" and self._namespace and name != self._namespace:
            return
        obj = cleaned({"apiVersion": source.api_version, "kind": source.kind, **obj})
        try:
            check_object(obj)
        except ValueError:
            self.recorded.skipped += 1
            return
        self._remember_node(source, obj)
        if self._redaction:
            obj = self._redaction.object(obj)
        try:
            self._add(ObjectEntry(at=self._now(), change=change, object=obj))
        except TooLong:
            self.recorded.skipped += 1
            return
        if is_first:
            self.recorded.objects[source.plural] += 1
        else:
            self.recorded.changes += 1

    def _remember_node(self, source: Source, obj: Json) -> None:
        """Remember a node, or that the kernel of a node has been programmed anew."""
        if source.kind == "Node":
            self._nodes.add(obj["metadata"]["name"])
        elif source.kind == "Lease":
            spec = obj.get("spec")
            node = spec.get("holderIdentity") if isinstance(spec, dict) else None
            if isinstance(node, str) and (event := self._changed_nodes.get(node)):
                event.set()

    async def _read_nodes(self) -> None:
        """Record the whole states of all nodes: they are read at the same time."""
        if self._namespaces is not None:
            await asyncio.gather(*(self._record_node(self._namespaces, node) for node in sorted(self._nodes)))

    async def _record_node(self, namespaces: NetworkNamespaces, node: str, sections: Collection[Section] = ALL) -> None:
        try:
            state = await read_network(await namespaces.node(node), sections)
        except NotEntered as error:
            self._see_not(f"node {node}", printable(str(error)))
            return
        reasons = set(state.unseen.values())
        if len(state.unseen) == len(sections) and len(reasons) == 1:
            self._see_not(f"node {node}", printable(reasons.pop()))
            return
        for section, why in sorted(state.unseen.items()):
            self._see_not(f"{section} of {node}", printable(why))
        if len(state.unseen) == len(sections):
            return
        try:
            self._add(NetworkEntry(at=self._now(), node=node, state=state))
        except TooLong:
            self._see_not(f"node {node}", "its state is too large for a recording")
            return
        self.recorded.kernel_states += 1

    async def _follow_node(self, namespaces: NetworkNamespaces, node: str) -> None:
        """Record the node's rules after each time that its proxy has published a change."""
        event = self._changed_nodes.setdefault(node, asyncio.Event())
        while True:
            await event.wait()
            event.clear()
            await self._record_node(namespaces, node, RULES)
            await asyncio.sleep(_KERNEL_SECONDS)


class _Follow:
    """A list and watch of one kind, which begins again after a failure."""

    def __init__(
        self,
        client: ApiClient,
        source: Source,
        path: str,
        on_object: Callable[[Source, Change, Json, bool], None],
    ) -> None:
        self.source = source
        self._client = client
        self._path = path
        self._on_object = on_object
        self._convert: Callable[[Json], Json] | None = None
        self._version = ""
        self._known: dict[tuple[str, str], str] = {}  # namespace and name -> resourceVersion

    def read_from(self, path: str, convert: Callable[[Json], Json]) -> None:
        """Read another version of the kind from now on; `convert` makes it one of the source."""
        self._path, self._convert = path, convert

    async def list(self, *, is_first: bool = True) -> None:
        """List all objects, and pass on those that are new, have changed or are gone."""
        continue_ = ""
        present: set[tuple[str, str]] = set()
        while True:
            params = {"limit": str(_PAGE)}
            if continue_:
                params["continue"] = continue_
            if self.source.label_selector:
                params["labelSelector"] = self.source.label_selector
            page = await self._client.request("GET", self._path, params=params)
            metadata, items = page.get("metadata"), page.get("items")
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict):
                    key, version = _identity(item)
                    present.add(key)
                    if self._known.get(key) != version:
                        self._pass("modified" if key in self._known else "added", item, is_first)
            metadata = metadata if isinstance(metadata, dict) else {}
            self._version = str(metadata.get("resourceVersion") or "")
            continue_ = str(metadata.get("continue") or "")
            if not continue_:
                break
        for namespace, name in sorted(self._known.keys() - present):
            self._pass("deleted", {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}})

    async def run(self) -> None:
        """Follow the changes. Ends only by cancellation, or an error of `on_object`."""
        while True:
            try:
                await self._watch()
            except ClientError:
                await asyncio.sleep(_RETRY_SECONDS)
                with contextlib.suppress(ClientError):
                    await self.list(is_first=False)

    async def _watch(self) -> None:
        events = self._client.watch_json(self._path, self._version, self.source.label_selector)
        async with contextlib.aclosing(events):
            async for event in events:
                obj, change = event.get("object"), _CHANGES.get(event.get("type"))
                if not isinstance(obj, dict):
                    continue
                self._version = _identity(obj)[1] or self._version
                if change is not None:
                    self._pass(change, obj)

    def _pass(self, change: Change, obj: Json, is_first: bool = False) -> None:
        key, version = _identity(obj)
        if change == "deleted":
            self._known.pop(key, None)
        else:
            self._known[key] = version
        self._on_object(self.source, change, self._convert(obj) if self._convert is not None else obj, is_first)


def _identity(obj: Json) -> tuple[tuple[str, str], str]:
    """Return namespace and name, and the resourceVersion."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return ("", ""), ""
    key = (str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
    return key, str(metadata.get("resourceVersion") or "")
