"""The pure parts of definitions: names, approval, conditions, JSONPath, columns, scale."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.customresources.accepted_names import decide_names
from bridgehead.apiserver.customresources.approval import approval_condition, validate_approval
from bridgehead.apiserver.customresources.definitions import make_condition, same_condition, with_conditions
from bridgehead.apiserver.customresources.jsonpath import as_text, compile_path, field_names
from bridgehead.apiserver.customresources.printer_columns import printer_columns, typed_cell
from bridgehead.apiserver.customresources.strategy import CustomResourceStrategy
from bridgehead.apiserver.resource import ScalePaths

from .definitions import texts

NOW = 1795232921.0  # 2026-11-21T03:48:41Z


def named(accepted=None, conditions=(), **names):
    wanted = {"plural": "tabs", "singular": "tab", "kind": "Tab", "listKind": "TabList", **names}
    return {
        "spec": {"names": wanted},
        "status": {"acceptedNames": accepted or {}, "conditions": list(conditions)},
    }


OTHER = {"plural": "tabs", "singular": "tab", "shortNames": ["t", "u"], "kind": "Tab", "listKind": "TabList"}


def test_free_names_are_accepted():
    naming = decide_names(named(shortNames=["t"], categories=["all"]), [])
    assert naming.accepted == {
        "plural": "tabs",
        "singular": "tab",
        "kind": "Tab",
        "listKind": "TabList",
        "shortNames": ["t"],
        "categories": ["all"],
    }
    assert [(one["status"], one["reason"]) for one in naming.conditions] == [
        ("True", "NoConflicts"),
        ("False", "Installing"),
    ]


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [
        ({"kind": "X", "listKind": "XList", "singular": "x"}, "PluralConflict", '"tabs" is already in use'),
        ({"plural": "x", "kind": "X", "listKind": "XList"}, "SingularConflict", '"tab" is already in use'),
        (
            {"plural": "x", "singular": "x", "kind": "X", "listKind": "XList", "shortNames": ["t", "u", "v"]},
            "ShortNamesConflict",
            '["t" is already in use, "u" is already in use]',
        ),
        ({"plural": "x", "singular": "x", "listKind": "XList"}, "KindConflict", '"Tab" is already in use'),
        ({"plural": "x", "singular": "x", "kind": "X"}, "ListKindConflict", '"TabList" is already in use'),
        ({"plural": "t", "singular": "x", "kind": "X", "listKind": "XList"}, "PluralConflict", '"t" is already in use'),
    ],
)
def test_a_name_that_another_definition_has_is_refused(names, reason, message):
    naming = decide_names(named(**names), [{"status": {"acceptedNames": OTHER}}])
    accepted, established = naming.conditions
    assert (accepted["status"], accepted["reason"], accepted["message"]) == ("False", reason, message)
    assert (established["status"], established["reason"]) == ("False", "NotAccepted")


def test_what_a_definition_holds_stays_its_own():
    held = {**OTHER, "categories": ["old"]}
    established = make_condition("Established", is_true=True, reason="InitialNamesAccepted", message="x")
    crd = named(held, [established], shortNames=["tab"])
    naming = decide_names(crd, [{"status": {"acceptedNames": {"plural": "x"}}}])
    assert naming.accepted == {**OTHER, "shortNames": ["tab"]}
    # A conflict later on does not end the service.
    conflict = decide_names(named(held, [established], kind="X"), [{"status": {"acceptedNames": {"kind": "X"}}}])
    assert conflict.accepted["kind"] == "Tab"
    assert conflict.conditions[1] == established


@pytest.mark.parametrize(
    ("group", "annotation", "status", "reason", "is_refused"),
    [
        ("example.com", None, None, None, False),
        ("x-k8s.io.example.com", None, None, None, False),
        ("k8s.io", None, "False", "MissingAnnotation", True),
        ("sigs.k8s.io", "unapproved, experimental-only", "False", "UnapprovedAnnotation", False),
        ("a.kubernetes.io", "https://github.com/x/y/pull/1", "True", "ApprovedAnnotation", False),
        ("a.kubernetes.io", "yes", "False", "InvalidAnnotation", True),
        ("a.kubernetes.io", "https://[", "False", "InvalidAnnotation", True),
    ],
)
def test_groups_of_kubernetes_need_an_approval(group, annotation, status, reason, is_refused):
    annotations = {} if annotation is None else {"api-approved.kubernetes.io": annotation}
    crd = {"metadata": {"annotations": annotations}, "spec": {"group": group}}
    condition = approval_condition(crd)
    assert (condition and (condition["status"], condition["reason"])) == (status and (status, reason))
    assert bool(texts(validate_approval, crd, None)) is is_refused
    assert texts(validate_approval, crd, crd) == []


def test_the_time_of_a_condition_changes_with_its_status():
    crd = with_conditions({}, [make_condition("A", is_true=True, reason="R", message="m")], "1")
    crd = with_conditions(crd, [make_condition("A", is_true=True, reason="S", message="m")], "2")
    (condition,) = crd["status"]["conditions"]
    assert (condition["reason"], condition["lastTransitionTime"]) == ("S", "1")
    crd = with_conditions(crd, [make_condition("A", is_true=False, reason="S", message="m")], "3")
    assert crd["status"]["conditions"][0]["lastTransitionTime"] == "3"
    assert same_condition(None, None)
    assert not same_condition(None, condition)
    assert same_condition(condition, {**condition, "lastTransitionTime": "9"})


OBJECT = {
    "spec": {"a.b": 1, "list": [{"t": "Ready", "s": "True", "n": 2}, {"t": "X", "s": "No", "n": 5}], "m": {"k": None}},
    "metadata": {"name": "x"},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.list[0].s", ["True"]),
        (".spec.list[-1].s", ["No"]),
        (".spec.list[7].s", []),
        (".spec.list[*].s", ["True", "No"]),
        (".spec.list[0:1].s", ["True"]),
        (".spec.list[::2].s", ["True"]),
        (".spec.list[0,1].s", ["True", "No"]),
        ('.spec.list[?(@.t=="Ready")].s', ["True"]),
        (".spec.list[?(@.n > 2)].s", ["No"]),
        (".spec.list[?(@.n > 'a')].s", []),
        (".spec.list[?(@.n)].s", ["True", "No"]),
        (".spec.list[?(@.x)].s", []),
        (".spec.list[?(@.x==1)].s", []),
        (".spec['a.b']", [1]),
        (".spec.a\\.b", [1]),
        (".metadata.*", ["x"]),
        ("..s", ["True", "No"]),
        (".nope.a", []),
        (".spec.list.s", []),
        (".metadata.name[0]", []),
        (".metadata.name[0:1]", []),
        (".spec.m.k", [None]),
        (".", [OBJECT]),
        ("", [OBJECT]),
    ],
)
def test_json_paths_find_values(path, expected):
    assert compile_path(path)(OBJECT) == expected


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec", "unrecognized character in action: 'sp'"),
        (".a[", "unterminated array"),
        (".a[']", "unterminated array"),
        (".a['x\"]", "unterminated array"),
        (".a[x]", "invalid array index x"),
        (".a[::0]", "step must be > 0"),
        (".a b", "unrecognized character in action: ' b'"),
        (".a[?(x)]", "unrecognized filter x"),
        (".a" * 101, "the path has more than 100 steps"),
    ],
)
def test_other_paths_are_refused(path, message):
    with pytest.raises(ValueError, match=message.replace("[", r"\[").replace("?", r"\?").replace("(", r"\(")):
        compile_path(path)


def test_a_path_of_wildcards_is_bounded():
    wide = {str(n): {str(m): {} for m in range(60)} for n in range(60)}
    assert len(compile_path(".." + "..*" * 20)(wide)) <= 10_000


def test_paths_of_fields_have_names():
    assert field_names(".spec.replicas") == ("spec", "replicas")
    assert field_names(".metadata.annotations['a/b.c']") == ("metadata", "annotations", "a/b.c")
    for bad in (".spec.", "spec", ".a[0]"):
        with pytest.raises(ValueError, match="invalid field path"):
            field_names(bad)


@pytest.mark.parametrize(
    ("value", "type", "cell"),
    [
        ("a", "string", "a"),
        (True, "string", "true"),
        (1.5, "string", "1.5"),
        (None, "string", "<nil>"),
        ({"b": 1, "a": [2]}, "string", '{"a":[2],"b":1}'),
        (["<&>"], "string", '["\\u003c\\u0026\\u003e"]'),
        ("<&>", "string", "<&>"),
        (3, "integer", 3),
        (3.7, "integer", 3),
        ("3", "integer", None),
        (True, "integer", None),
        (3, "number", 3),
        (3.0, "number", 3),
        (3.5, "number", 3.5),
        (1e300, "number", 1e300),
        (False, "boolean", False),
        ("false", "boolean", None),
        ("2026-11-21T03:47:41Z", "date", "60s"),
        ("nonsense", "date", "<invalid>"),
        ("", "date", "<unknown>"),
        (5, "date", None),
        ("a", "other", None),
    ],
)
def test_a_cell_has_the_type_of_its_column(value, type, cell):
    shown = typed_cell(value, type, NOW)
    assert (shown, shown.__class__) == (cell, cell.__class__)


def test_columns_end_at_a_path_that_cannot_be_read():
    columns = printer_columns([{"name": "A", "type": "string", "jsonPath": ".a"}, {"name": "B", "jsonPath": "b"}])
    assert [column.name for column in columns] == ["Name", "A"]
    assert columns[1].description == "Custom resource definition column (in JSONPath format): .a"
    assert columns[1].cell({}, NOW) is None
    (_, age) = printer_columns([])
    assert (age.name, age.type, age.cell({"metadata": {"creationTimestamp": "2026-11-21T03:47:41Z"}}, NOW)) == (
        "Age",
        "date",
        "60s",
    )
    assert as_text(False) == "false"


SCALED = CustomResourceStrategy(
    None, has_status=True, scale=ScalePaths(("spec", "n"), ("status", "n"), ("status", "selector"))
)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({}, []),
        ({"spec": {"n": 1}, "status": {"n": 0, "selector": "a=b"}}, []),
        ({"spec": 1}, []),
        ({"spec": {"n": -1}}, [".spec.n: Invalid value: -1: should be a non-negative integer"]),
        ({"spec": {"n": 2**31}}, [f".spec.n: Invalid value: {2**31}: should be less than or equal to 2147483647"]),
        (
            {"status": {"n": "x"}},
            [".status.n: Invalid value: 0: .status.n accessor error: x is of the type string, expected int64"],
        ),
        (
            {"status": {"selector": 5}},
            [
                '.status.selector: Invalid value: "": .status.selector accessor error: 5 is of the type int64, '
                "expected string"
            ],
        ),
    ],
)
def test_the_fields_of_a_scale_are_validated(obj, expected):
    assert texts(SCALED.validate_create, obj) == expected
    status_only = [one for one in expected if one.startswith(".status")]
    assert texts(SCALED.validate_update, obj, {}, "status") == status_only


def test_a_resource_without_a_scale_has_no_rules_for_it():
    plain = CustomResourceStrategy(None, has_status=False, scale=None)
    obj = {"spec": {"n": -1}, "status": {}}
    plain.default(obj)
    plain.prepare_create(obj)
    assert obj == {"spec": {"n": -1}, "status": {}}
    assert texts(plain.validate_create, obj) == texts(plain.validate_update, obj, obj, "") == []
