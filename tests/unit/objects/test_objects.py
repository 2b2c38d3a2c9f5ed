"""Objects agree with the official schema; names and selectors with their rules."""

from __future__ import annotations

import json
import types
import typing
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.definitions import DEFINITIONS
from bridgehead.objects import names, times
from bridgehead.objects.core import Pod, PodSpec, Service
from bridgehead.objects.kinds import ALL_KINDS
from bridgehead.objects.meta import LabelSelector, LabelSelectorRequirement, json_name
from bridgehead.objects.selectors import (
    Requirement,
    compile_selector,
    parse_field_selector,
    parse_label_selector,
)


@cache
def definitions() -> dict[str, Any]:
    return json.loads(DEFINITIONS.read_text(encoding="utf-8"))["$defs"]


def struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """The struct that a field's type holds, directly, in a tuple or as an option."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    if typing.get_origin(annotation) in (tuple, types.UnionType, typing.Union):
        return next(filter(None, map(struct_in, typing.get_args(annotation))), None)
    return None


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.name)
def test_every_field_is_in_the_official_schema(kind):
    schema = definitions()
    group = kind.group.removesuffix(".k8s.io") or "core"
    unknown: list[str] = []

    def compare(struct: type[msgspec.Struct], definition: dict[str, Any], path: str, seen: tuple[type, ...]) -> None:
        if struct in seen:
            return
        properties = definition.get("properties", {})
        hints = typing.get_type_hints(struct)
        for field in msgspec.structs.fields(struct):
            where = f"{path}.{field.encode_name}"
            if field.encode_name not in properties:
                unknown.append(where)
                continue
            found = properties[field.encode_name]
            found = found.get("items", found)
            inner = struct_in(hints[field.name])
            if inner and "$ref" in found:
                compare(inner, schema[found["$ref"].removeprefix("#/$defs/")], where, (*seen, struct))

    compare(kind.type, schema[f"io.k8s.api.{group}.{kind.version}.{kind.name}"], kind.name, ())
    # Conditions of all kinds share one struct; volumes share theirs with the projections of the same source, and
    # a pod's security context its with the containers'; ReplicationControllers share the ReplicaSets' status.
    shared = {"lastTransitionTime", "lastProbeTime", "lastHeartbeatTime", "lastUpdateTime", "observedGeneration"}
    shared |= {"name", "secretName", "defaultMode", "privileged", "terminatingReplicas"}
    assert [where for where in unknown if where.rsplit(".", 1)[1] not in shared] == []


@pytest.mark.parametrize(
    ("python", "json_spelling"),
    [
        ("cluster_ip", "clusterIP"),
        ("cluster_ips", "clusterIPs"),
        ("api_version", "apiVersion"),
        ("host_pid", "hostPID"),
        ("set_hostname_as_fqdn", "setHostnameAsFQDN"),
        ("uid", "uid"),
        ("downward_api", "downwardAPI"),
    ],
)
def test_json_names_match_kubernetes(python, json_spelling):
    assert json_name(python) == json_spelling


def test_unknown_fields_are_ignored_and_known_ones_are_typed():
    pod = msgspec.json.decode(b'{"metadata":{"name":"a"},"spec":{"overhead":{},"nodeName":"n"}}', type=Pod)
    assert pod.spec == PodSpec(node_name="n")
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"spec":{"ports":[{"port":"x"}]}}', type=Service)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.check_dns1123_label, ["a", "1a", "a-b", "a" * 63], ["", "A", "-a", "a-", "a.b", "a_b", "a" * 64, "a\n"]),
        (names.check_dns1123_subdomain, ["a", "a.b", "1.2"], ["", ".", "a..b", "a.", "A.b", "a" * 254]),
        (
            names.check_qualified_name,
            ["a", "a.b/c", "A_b", "example.com/a.b"],
            ["", "/a", "a/", "a/b/c", "-a", "a" * 64, "A.b/c"],
        ),
        (names.check_label_value, ["", "a", "A.b_c-d"], ["-a", "a-", "a" * 64, "a b", "a\n"]),
        (names.check_port_name, ["http", "a-1", "1a"], ["", "-a", "a-", "a--b", "123", "Http", "a" * 16]),
    ],
)
def test_names_are_validated(check, good, bad):
    assert [value for value in good if check(value)] == []
    assert [value for value in bad if not check(value)] == []


LABELS = {"app": "web", "tier": "front", "n": "5"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier!=back", True),
        ("app!=web", False),
        ("missing!=x", True),
        ("app in (web, db)", True),
        ("app notin (web,db)", False),
        ("missing notin (a)", True),
        ("app", True),
        ("!app", False),
        ("! missing", True),
        ("n>4,n<6", True),
        ("n>5", False),
        ("app>5", False),
        ("app=", False),
    ],
)
def test_label_selectors_are_parsed(text, expected):
    assert parse_label_selector(text).matches(LABELS) is expected


@pytest.mark.parametrize(
    "text",
    ["=", "a=b=c", "a in", "a in (", "a in (b", "a ~ b", "a,", ",a", "n>x", "a==b c", "-a=b", "a=b,,c", "a in b"],
)
def test_invalid_label_selectors_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_label_selector(text)


@given(st.text(max_size=30))
def test_any_selector_is_parsed_or_refused(text):
    for parse in (parse_label_selector, parse_field_selector):
        try:
            parse(text).matches(LABELS)
        except ValueError:
            continue


def test_field_selectors_are_parsed():
    selector = parse_field_selector("status.phase=Running,spec.nodeName!=a")
    assert selector.matches({"status.phase": "Running", "spec.nodeName": "b"})
    assert not selector.matches({"status.phase": "Running", "spec.nodeName": "a"})
    with pytest.raises(ValueError, match="can't understand"):
        parse_field_selector("status.phase")


def test_selectors_of_objects_match_labels():
    everything = compile_selector(LabelSelector())
    assert everything.matches({})
    assert not compile_selector(None).matches(LABELS)
    selector = compile_selector(
        LabelSelector(
            match_labels={"app": "web"},
            match_expressions=(LabelSelectorRequirement(key="tier", operator="In", values=("front", "back")),),
        )
    )
    assert selector.matches(LABELS)
    assert selector.requirements[0] == Requirement("app", "in", frozenset(["web"]))
    with pytest.raises(ValueError, match="not a valid label selector operator"):
        compile_selector(LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="?"),)))


@given(st.floats(min_value=0, max_value=4e9))
def test_times_are_parsed_as_they_were_formatted(moment):
    assert times.parse_time(times.format_time(moment)) == int(moment)
    assert abs(times.parse_time(times.format_micro_time(moment)) - moment) < 1e-5


def test_years_have_four_digits():
    assert times.format_time(-62135596798) == "0001-01-01T00:00:02Z"
    assert times.format_micro_time(-62135596798) == "0001-01-01T00:00:02.000000Z"


def test_times_without_a_zone_are_refused():
    with pytest.raises(ValueError, match="no time zone"):
        times.parse_time("2026-11-21T02:35:22")


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00.5+01:00", 5 * 10**8),
        ("2027-01-15T02:25:00.123456789-05:30", 1_800_000_000 * 10**9 - 300 * 10**9 + 123456789),
        ("1969-12-31T23:59:59.9999999999Z", -1),
        ("0001-01-01T00:00:00+14:00", -62135596800 * 10**9 - 14 * 3600 * 10**9),
        ("9999-12-31T23:59:59-14:00", 253402300799 * 10**9 + 14 * 3600 * 10**9),
    ],
)
def test_instants_have_the_nanoseconds_of_their_text(text, nanoseconds):
    assert times.parse_instant(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "soon", "2026-11-21T02:35:22", "2026-02-30T00:00:00Z"])
def test_instants_of_other_text_are_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011
        times.parse_instant(text)


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("30s", 30), ("1m30s", 90), ("1.5h", 5400), ("100ms", 0.1)])
def test_durations_are_parsed(text, seconds):
    assert times.parse_duration(text) == pytest.approx(seconds)
