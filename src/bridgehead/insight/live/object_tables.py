"""The tables of objects: rows that are computed again when an object that they depend on has changed.

A handler of an informer only marks keys. Rows are kept for the tables that somebody wants, and computed when changes
are asked for.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from bridgehead.client import Informer
from bridgehead.insight.facts.system_object_names import is_proxy_pod
from bridgehead.insight.proxies import proxy_states
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import Event, Node, Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice, index_by_service
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import Progress, read_progress

from .row_computation import endpoints_row, event_row, event_time, node_row, pod_row, service_row
from .rows import Row, ServiceRow
from .updates import OBJECT_TABLES, Change, Op, Table

MOST_EVENTS = 1000  # rows of Events, the latest ones
_MOST_ROWS = 2000  # that are computed without a pause

_BY_SERVICE, _BY_LABEL, _BY_NODE, _PROXIES = "service", "label", "node", "proxies"


def _label_keys(pod: Pod) -> Iterable[str]:
    return [f"{pod.metadata.namespace}/{key}={value}" for key, value in pod.metadata.labels.items()]


def _proxy_keys(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if is_proxy_pod(pod) else ()


def _state_of_proxy(progress: Progress | None) -> object:
    return None if progress is None else (progress.node, progress.mode)


class ObjectTables:
    """Rows of the objects in the informers. `on_mark` is called when rows of a wanted table have to be computed."""

    def __init__(
        self,
        services: Informer[Service],
        slices: Informer[EndpointSlice],
        pods: Informer[Pod],
        nodes: Informer[Node],
        events: Informer[Event],
        leases: Informer[Lease],
        on_mark: Callable[[], None],
    ) -> None:
        self._services, self._slices, self._pods = services, slices, pods
        self._nodes, self._events, self._leases = nodes, events, leases
        self._on_mark = on_mark
        self.can_see_pods = True
        self._marked: dict[Table, dict[ObjectKey, None]] = {table: {} for table in OBJECT_TABLES}
        self._rows: dict[Table, dict[ObjectKey, Row]] = {}  # of the wanted tables
        self._pods_of_nodes: Counter[str] = Counter()
        self._rejections: Counter[str] = Counter()  # nodes that reject a Service, by its key
        self._unmatched: dict[str, set[ObjectKey]] = defaultdict(set)  # Services without endpoints, by namespace
        slices.add_index(_BY_SERVICE, index_by_service)
        pods.add_index(_BY_LABEL, _label_keys)
        pods.add_index(_BY_NODE, lambda pod: (pod.spec.node_name,))
        pods.add_index(_PROXIES, _proxy_keys)
        leases.add_index(_BY_NODE, lambda lease: (lease.spec.holder_identity or "",))
        services.on_change(self._on_service)
        slices.on_change(self._on_slice)
        pods.on_change(self._on_pod)
        nodes.on_change(self._on_node)
        events.on_change(self._on_event)
        leases.on_change(self._on_lease)
        self._builders: Mapping[Table, Callable[[ObjectKey], Row | None]] = {
            Table.SERVICES: self._service_row,
            Table.ENDPOINTS: self._endpoints_row,
            Table.PODS: self._pod_row,
            Table.NODES: self._node_row,
            Table.EVENTS: self._event_row,
        }

    # Handlers of informers

    def _mark(self, table: Table, *keys: ObjectKey) -> None:
        if table in self._rows and keys:
            marked = self._marked[table]
            for key in keys:
                marked[key] = None
            self._on_mark()

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        key = _key_of(old, new)
        if new is None:
            self._unmatched[key.namespace].discard(key)
        self._mark(Table.SERVICES, key)
        self._mark(Table.ENDPOINTS, key)

    def _on_slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for key in {each.service_key for each in (old, new) if each is not None}:
            if key is not None:
                self._mark(Table.SERVICES, key)
                self._mark(Table.ENDPOINTS, key)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        key = _key_of(old, new)
        self._mark(Table.PODS, key)
        before, after = (each.spec.node_name if each is not None else "" for each in (old, new))
        if before != after:
            self._pods_of_nodes[before] -= 1
            self._pods_of_nodes[after] += 1
            self._mark(Table.NODES, ObjectKey("", before), ObjectKey("", after))
        elif new is not None and is_proxy_pod(new):
            self._mark(Table.NODES, ObjectKey("", after))
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self._mark(Table.SERVICES, *self._unmatched.get(key.namespace, ()))

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        self._mark(Table.NODES, _key_of(old, new))

    def _on_event(self, old: Event | None, new: Event | None) -> None:
        self._mark(Table.EVENTS, _key_of(old, new))

    def _on_lease(self, old: Lease | None, new: Lease | None) -> None:
        before, after = (read_progress(each) if each is not None else None for each in (old, new))
        if _state_of_proxy(before) != _state_of_proxy(after):
            for each in (before, after):
                if each is not None:
                    self._mark(Table.NODES, ObjectKey("", each.node))
        was, is_now = (frozenset(each.refused) if each is not None else frozenset() for each in (before, after))
        for name in was - is_now:
            self._rejections[name] -= 1
        for name in is_now - was:
            self._rejections[name] += 1
        for name in was ^ is_now:
            namespace, _, service = name.partition("/")
            self._mark(Table.SERVICES, ObjectKey(namespace, service))

    # Rows

    def _service_row(self, key: ObjectKey) -> ServiceRow | None:
        service = self._services.get(key)
        if service is None:
            return None
        slices = self._slices.by_index(_BY_SERVICE, str(key))
        has_pods: bool | None = None
        has_endpoints = any(each.endpoints for each in slices)
        if not has_endpoints and service.spec.selector:
            self._unmatched[key.namespace].add(key)
            has_pods = bool(self._selected_pods(service)) if self.can_see_pods else None
        else:
            self._unmatched[key.namespace].discard(key)
        return service_row(service, slices, has_pods=has_pods, is_rejected=self._rejections[str(key)] > 0)

    def _endpoints_row(self, key: ObjectKey) -> Row | None:
        service = self._services.get(key)
        return None if service is None else endpoints_row(service, self._slices.by_index(_BY_SERVICE, str(key)))

    def _pod_row(self, key: ObjectKey) -> Row | None:
        pod = self._pods.get(key)
        return None if pod is None else pod_row(pod)

    def _node_row(self, key: ObjectKey) -> Row | None:
        node = self._nodes.get(key)
        if node is None:
            return None
        name = key.name
        state = proxy_states([name], self._pods.by_index(_PROXIES, name), self._leases.by_index(_BY_NODE, name))[name]
        return node_row(node, state, self._pods_of_nodes[name])

    def _event_row(self, key: ObjectKey) -> Row | None:
        event = self._events.get(key)
        return None if event is None else event_row(event)

    # Questions

    def want(self, tables: frozenset[Table]) -> None:
        """Keep the rows of these tables from now on, and of no others."""
        for table in [table for table in self._rows if table not in tables]:
            del self._rows[table]
            self._marked[table].clear()
        for table in tables & OBJECT_TABLES - self._rows.keys():
            self._rows[table] = self._all_rows(table)

    def rows(self, table: Table) -> tuple[Row, ...]:
        """Return the rows of a table, sorted by key, up to the last `changes`; all as of now if nobody wants it."""
        rows = self._rows.get(table)
        found = (self._all_rows(table) if rows is None else rows).values()
        return tuple(sorted(found, key=lambda row: row.key))

    def _all_rows(self, table: Table) -> dict[ObjectKey, Row]:
        keys: Iterable[ObjectKey]
        match table:
            case Table.PODS:
                keys = self._pods.keys()
            case Table.NODES:
                keys = self._nodes.keys()
            case Table.EVENTS:
                keys = [each.key for each in heapq.nlargest(MOST_EVENTS, self._events.items(), key=event_time)]
            case _:
                keys = self._services.keys()
        build = self._builders[table]
        return {key: row for key in keys if (row := build(key)) is not None}

    @property
    def has_marked(self) -> bool:
        return any(self._marked.values())

    def changes(self) -> list[Change]:
        """Return the changes of marked rows, of so many that it takes no long time: see `has_marked` afterwards."""
        found: list[Change] = []
        budget = _MOST_ROWS
        for table, rows in self._rows.items():
            marked, build = self._marked[table], self._builders[table]
            while marked and budget:
                budget -= 1
                key, _ = marked.popitem()
                old, new = rows.get(key), build(key)
                if new is not None and new != old:
                    rows[key] = new
                    found.append(Change(table, Op.ADDED if old is None else Op.CHANGED, new.key, new))
                elif new is None and old is not None:
                    del rows[key]
                    found.append(Change(table, Op.REMOVED, old.key, None))
        found += self._drop_old_events()
        return found

    def _drop_old_events(self) -> list[Change]:
        """Limit the rows of Events, seldom, because it looks at all of them."""
        rows = self._rows.get(Table.EVENTS, {})
        if len(rows) <= 1.5 * MOST_EVENTS:
            return []
        old = heapq.nsmallest(len(rows) - MOST_EVENTS, rows, key=lambda key: getattr(rows[key], "last", 0.0))
        return [Change(Table.EVENTS, Op.REMOVED, rows.pop(key).key, None) for key in old]

    def pods_of(self, key: ObjectKey) -> tuple[str, ...]:
        """Return the keys of the pods that a Service selects or, without a selector, that its EndpointSlices name."""
        service = self._services.get(key)
        if service is None:
            return ()
        if service.spec.selector:
            return tuple(sorted(str(pod.key) for pod in self._selected_pods(service)))
        slices = self._slices.by_index(_BY_SERVICE, str(key))
        targets = [endpoint.target_ref for each in slices for endpoint in each.endpoints]
        return tuple(sorted({f"{key.namespace}/{each.name}" for each in targets if each and each.kind == "Pod"}))

    def pods_on(self, node: str) -> tuple[str, ...]:
        """Return the keys of the pods on a node."""
        return tuple(sorted(str(pod.key) for pod in self._pods.by_index(_BY_NODE, node)))

    def _selected_pods(self, service: Service) -> list[Pod]:
        wanted = service.spec.selector.items()
        first = next(iter(wanted))
        found = self._pods.by_index(_BY_LABEL, f"{service.metadata.namespace}/{first[0]}={first[1]}")
        return [pod for pod in found if wanted <= pod.metadata.labels.items()]


def _key_of(old: Service | Pod | Node | Event | None, new: Service | Pod | Node | Event | None) -> ObjectKey:
    obj = new if new is not None else old
    if obj is None:
        raise ValueError("a change has an object")
    return obj.key
