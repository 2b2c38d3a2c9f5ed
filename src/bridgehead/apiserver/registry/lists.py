"""Lists: the records that a request selects, page by page.

A `continue` token contains the revision of the first page and the last object of the previous page. Later pages come
from the current state and carry the first page's revision: a client that starts a watch there gets every change since.
Source: Kubernetes API concepts "Retrieving large results sets in chunks".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from bridgehead.apiserver.errors import bad_request, expired, invalid, too_large_resource_version
from bridgehead.apiserver.http.paths import Query, RequestInfo, is_true, parse_int, parse_uint
from bridgehead.apiserver.resource import FieldError, JsonObject, Resource
from bridgehead.objects.selectors import EVERYTHING, Selector, parse_field_selector, parse_label_selector
from bridgehead.storage import Facts, Record, Store


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


@dataclass(frozen=True, slots=True)
class Page:
    records: list[Record]
    revision: int
    token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct):
    rv: int
    namespace: str
    name: str


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
    known = {"metadata.name", *resource.selectable}
    if resource.namespaced:
        known.add("metadata.namespace")
    for requirement in fields.requirements:
        if requirement.key not in known:
            raise bad_request(f"field label not supported: {requirement.key}")
    if resource.stored_form is not None:
        fields = _with_stored_names(fields, resource.stored_form.fields)
    return Selection(labels, fields)


def _with_stored_names(fields: Selector, names: Mapping[str, str]) -> Selector:
    return Selector(tuple(replace(one, key=names.get(one.key, one.key)) for one in fields.requirements))


def check_list_options(query: Query) -> None:
    """Raise a 422 for options that exclude each other (ValidateListOptions)."""
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    error = None
    if "sendInitialEvents" in query:
        error = FieldError(
            "FieldValueForbidden", "sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list"
        )
    elif match and not version:
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        error = FieldError("FieldValueForbidden", "resourceVersionMatch", why)
    elif match and query.get("continue"):
        why = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        error = FieldError("FieldValueForbidden", "resourceVersionMatch", why)
    elif match and match not in ("Exact", "NotOlderThan"):
        why = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"'
        error = FieldError("FieldValueNotSupported", "resourceVersionMatch", why)
    elif match == "Exact" and version == "0":
        why = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        error = FieldError("FieldValueForbidden", "resourceVersionMatch", why)
    if error is not None:
        raise invalid("meta.k8s.io", "ListOptions", "", [error])


def parse_resource_version(query: Query) -> int | None:
    """Return the query's resourceVersion, None without one. Raises a 400."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    try:
        return parse_uint(text)
    except ValueError as error:
        value = json.dumps(text, ensure_ascii=False)
        why = f"invalid resource version: resourceVersion: Invalid value: {value}: {error}"
        raise bad_request(why) from None


def list_page(store: Store, resource: Resource, info: RequestInfo, query: Query) -> Page:
    """Return the page that a request asks for. Raises a 400, a 410 for an expired token, a 422 or a 504."""
    check_list_options(query)
    selection = parse_selection(resource, query)
    limit = _limit(query)
    namespace = info.namespace if resource.namespaced and info.namespace else None
    revision, after = store.revision, None
    if query.get("continue"):
        if query.get("resourceVersion") not in (None, "", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        token = _read_token(query["continue"])
        if token.rv > revision:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
        revision, after = token.rv, (token.namespace, token.name)
    else:
        _check_version(query, revision)
    if limit == 0 and selection.is_everything:
        return Page(store.list(resource.stored.id, namespace, after=after), revision)
    if selection.is_everything:
        records = store.list(resource.stored.id, namespace, limit=limit + 1, after=after)
        remaining = None
        if len(records) > limit:
            remaining = len(store.list(resource.stored.id, namespace, after=_name_of(records[limit - 1])))
    else:
        records = [r for r in store.list(resource.stored.id, namespace, after=after) if selection.matches(r.facts)]
        remaining = None  # unknown with a selector, as in Kubernetes
    if limit == 0 or len(records) <= limit:
        return Page(records, revision)
    records = records[:limit]
    return Page(records, revision, _write_token(revision, records[-1]), remaining)


def _limit(query: Query) -> int:
    text = query.get("limit", "") or "0"
    try:
        return max(0, parse_int(text))
    except ValueError as error:
        raise bad_request(str(error)) from None


def _check_version(query: Query, current: int) -> None:
    wanted = parse_resource_version(query)
    if wanted is None or wanted == 0:
        return
    if wanted > current:
        raise too_large_resource_version(wanted, current)
    if query.get("resourceVersionMatch") == "Exact" and wanted != current:
        raise expired(f"The provided resource version is too old: {wanted} ({current})")


def _name_of(record: Record) -> tuple[str, str]:
    return record.key.namespace, record.key.name


def _write_token(revision: int, last: Record) -> str:
    token = msgspec.json.encode(_Token(revision, *_name_of(last)))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.DecodeError):
        raise bad_request("continue key is not valid: encountered invalid data") from None


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
