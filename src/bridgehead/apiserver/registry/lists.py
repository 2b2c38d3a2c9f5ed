"""Lists: the records that a request selects, page by page.

All pages of a list are of the first page's revision: later changes are undone with the store's history. A token expires
when the history no longer reaches back, or after five minutes with writes, as etcd's compaction makes it expire; the
refusal has a token for the rest of the list as it is then.
Source: Kubernetes API concepts "Retrieving large results sets in chunks", apiserver/pkg/storage/etcd3/store.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bridgehead.apiserver.errors import ApiStatus, bad_request, expired_list, too_large_resource_version
from bridgehead.apiserver.http.request_info import Query, RequestInfo, is_true
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.selectors import EVERYTHING, Selector, parse_field_selector, parse_label_selector
from bridgehead.storage import Facts, FieldValue, Record, Store, TooOld

from .continue_tokens import INCONSISTENT, Position, read_token, write_token
from .list_options import EXACT, check_list_options, parse_number, parse_resource_version

# Time for which a token is valid while there are writes (kube-apiserver's --etcd-compaction-interval).
TOKEN_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Selection:
    """The label selector and the field selector of a request."""

    labels: Selector = EVERYTHING
    fields: Selector = EVERYTHING

    @property
    def is_everything(self) -> bool:
        return not self.labels.requirements and not self.fields.requirements

    def matches(self, facts: Facts) -> bool:
        return self.labels.matches(facts.labels) and self.fields.matches(facts.fields)

    def select(self, records: Iterable[Record]) -> list[Record]:
        """Return the selected records. One comparison leaves out most of them if they are those of one node or name."""
        if (field := self.field_value) is not None:
            name, value = field
            records = [record for record in records if record.facts.fields.get(name) == value]
        return [record for record in records if self.matches(record.facts)]

    @property
    def field_value(self) -> FieldValue | None:
        """A value of a field that all selected objects have, such as the name of their node; None if there is none."""
        for requirement in self.fields.requirements:
            if requirement.operator == "in" and len(requirement.values) == 1:
                return FieldValue(requirement.key, *requirement.values)
        return None


@dataclass(frozen=True, slots=True)
class Page:
    records: Sequence[Record]
    revision: int
    token: str = ""
    remaining: int | None = None


# The texts of kinds whose own conversion of field selectors has another text than those of the others.
_UNKNOWN_FIELD = {
    "jobs.batch": 'field label "{}" not supported for batchv1.Job',
    "resourceslices.resource.k8s.io": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
}


def _converts_fields(resource: Resource) -> bool:
    """Whether the kind has its own conversion of field selectors, because it has fields of its own."""
    return bool(resource.selectable) or resource.definition is not None


def _unknown_field(resource: Resource, key: str) -> str:
    """Return the error for a field selector."""
    if _converts_fields(resource):
        return _UNKNOWN_FIELD.get(resource.id, "field label not supported: {}").format(key)
    shown = json.dumps(key, ensure_ascii=False)
    return f'{shown} is not a known field selector: only "metadata.name", "metadata.namespace"'


def parse_selection(resource: Resource, query: Query) -> Selection:
    """Parse the selectors of a query. Raises a 400 for a syntax error or an unsupported field."""
    label_text, field_text = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not label_text and not field_text:
        return Selection()
    try:
        labels = parse_label_selector(label_text) if label_text else EVERYTHING
    except ValueError as error:
        raise bad_request(f"{error}") from None
    try:
        fields = parse_field_selector(field_text) if field_text else EVERYTHING
    except ValueError as error:
        raise bad_request(f"{error}") from None
    known = {"metadata.name", *resource.selectable, *resource.field_aliases}
    if resource.namespaced or not _converts_fields(resource):
        known.add("metadata.namespace")
    for requirement in fields.requirements:
        if requirement.key not in known:
            raise bad_request(_unknown_field(resource, requirement.key))
    names = resource.field_aliases if resource.stored_form is None else resource.stored_form.fields
    if names:
        fields = _with_stored_names(fields, names)
    return Selection(labels, fields)


def _with_stored_names(fields: Selector, names: Mapping[str, str]) -> Selector:
    return Selector(tuple(replace(one, key=names.get(one.key, one.key)) for one in fields.requirements))


def required_revision(resource: Resource, query: Query) -> int:
    """Return the revision that the store has to reach before `list_page`; 0 for a list that does not wait for one.

    Raises a 400 or a 422.
    """
    if query.get("resourceVersion", "0") in ("", "0"):
        return 0
    check_list_options(query)
    parse_selection(resource, query)
    version = parse_resource_version(query) or 0
    return 0 if query.get("continue") or _is_exact(query, version, parse_number(query, "limit")) else version


def _is_exact(query: Query, version: int | None, limit: int) -> bool:
    """Whether a list is of exactly one revision. Limited lists are, if there is no rule for the match."""
    match = query.get("resourceVersionMatch", "")
    return bool(version) and (match == EXACT or (limit > 0 and not match))


def list_page(store: Store, resource: Resource, info: RequestInfo, query: Query, now: float) -> Page:
    """Return the page that a request asks for at `now` (seconds since the epoch).

    Raises a 400, a 410 for a revision that is no longer kept, a 422, or a 504 for a revision of the future.
    """
    check_list_options(query)
    selection = parse_selection(resource, query)
    limit, version = max(0, parse_number(query, "limit")), parse_resource_version(query)
    namespace = info.namespace if resource.namespaced and info.namespace else None
    if query.get("continue"):
        if version:
            raise bad_request("specifying resource version is not allowed when using continue")
        begin = read_token(query["continue"])
        records, revision = _rest(store, resource, namespace, begin, now)
        since = begin.since
    else:
        records, revision = _whole(store, resource, namespace, query, version, limit)
        since = int(now)
        if version == 0:
            limit = 0  # as the watch cache of Kubernetes
    if not selection.is_everything:
        records = selection.select(records)
    if limit == 0 or len(records) <= limit:
        return Page(records, revision)
    # The number is unknown with a selector, as in Kubernetes.
    remaining = len(records) - limit if selection.is_everything else None
    last = records[limit - 1].key
    token = write_token(Position(revision, (last.namespace, last.name), since))
    return Page(records[:limit], revision, token, remaining)


def _whole(
    store: Store, resource: Resource, namespace: str | None, query: Query, version: int | None, limit: int
) -> tuple[Sequence[Record], int]:
    """Return a list without its options of size, and its revision. Raises a 410 or a 504."""
    current = store.revision
    if version is not None and version > current:
        raise too_large_resource_version(version, current)
    if version and _is_exact(query, version, limit):
        return _at(store, resource, namespace, version), version
    return store.list(resource.stored.id, namespace), current


def _rest(
    store: Store, resource: Resource, namespace: str | None, begin: Position, now: float
) -> tuple[Sequence[Record], int]:
    """Return the objects from a token's position on, and the revision of the list. Raises a 410 or a 504."""
    current = store.revision
    if begin.revision == INCONSISTENT:
        return store.list(resource.stored.id, namespace, after=begin.after), current
    if begin.revision > current:
        raise too_large_resource_version(begin.revision, current)
    if begin.revision < current and now - begin.since > TOKEN_SECONDS:
        raise expired_list(write_token(begin._replace(revision=INCONSISTENT)))
    try:
        return _at(store, resource, namespace, begin.revision, begin.after), begin.revision
    except ApiStatus:
        raise expired_list(write_token(begin._replace(revision=INCONSISTENT))) from None


def _at(
    store: Store, resource: Resource, namespace: str | None, revision: int, after: tuple[str, str] | None = None
) -> Sequence[Record]:
    try:
        return store.list_at(revision, resource.stored.id, namespace, after=after)
    except TooOld:
        raise expired_list() from None


def wants_watch_bookmarks(query: Query) -> bool:
    return is_true(query, "allowWatchBookmarks")


def list_meta(page: Page) -> JsonObject:
    """Return the `metadata` of a list."""
    meta: JsonObject = {"resourceVersion": str(page.revision)}
    if page.token:
        meta["continue"] = page.token
    if page.remaining is not None:
        meta["remainingItemCount"] = page.remaining
    return meta
