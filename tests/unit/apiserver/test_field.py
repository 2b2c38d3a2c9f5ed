"""Fields under validation: their paths, and the texts of errors."""

from bridgehead.apiserver.field import Field

OBJECT = {"spec": {"ports": [{"port": 1}], "limits": {"a.b/c": 2}}}


def test_paths_have_the_names_keys_and_indexes_of_their_fields() -> None:
    spec = Field(OBJECT).at("spec")
    (port,) = spec.at("ports").each()
    assert (port.at("port").path, port.get("port")) == ("spec.ports[0].port", 1)
    (limit,) = (one for _, one in spec.at("limits").entries())
    assert (limit.path, limit.value) == ("spec.limits[a.b/c]", 2)
    assert spec.at("limits").entry("d").path == "spec.limits[d]"
    assert spec.at("limits").entry("d").value is None
    assert Field({}, "s.x").at("y").path == "s.x.y"


def test_the_path_of_a_deep_field_needs_no_stack() -> None:
    field = Field({})
    for _ in range(10_000):
        field = field.at("a")
    assert field.path == ".".join(["a"] * 10_000)


def test_fields_of_what_is_absent_are_absent() -> None:
    absent = Field(OBJECT).at("status").at("conditions")
    assert (absent.path, absent.value, list(absent.each()), list(absent.entries())) == (
        "status.conditions",
        None,
        [],
        [],
    )


def test_fields_are_set_unless_absent_empty_or_zero() -> None:
    spec = Field({"a": 1, "b": 0, "c": ""}, "spec")
    assert [field.path for field in spec.those_set("b", "a", "c", "d")] == ["spec.a"]
    assert list(spec.at("d").those_set("e")) == []


def test_items_beyond_the_end_of_a_list_are_absent() -> None:
    ports = Field(OBJECT).at("spec").at("ports")
    assert [(ports.item(index).path, ports.item(index).value) for index in (0, 1)] == [
        ("spec.ports[0]", {"port": 1}),
        ("spec.ports[1]", None),
    ]


def test_a_value_obeys_what_adds_no_error() -> None:
    root = Field({**OBJECT, "metadata": {}})
    root.at("status").required()
    assert root.at("spec").must_obey(Field.must_be_set)
    assert not root.at("metadata").must_obey(Field.must_be_set)
    assert root.at("data").must_obey(Field.must_be_set), "an absent value obeys"
    assert [error.field for error in root.errors] == ["status", "metadata"]


def test_fields_that_are_not_set_can_count_as_absent() -> None:
    spec = Field({"a": 7, "b": 0, "c": ""})
    assert [(field.path, field.value) for field in map(spec.if_set, "abcd")] == [
        ("a", 7),
        ("b", None),
        ("c", None),
        ("d", None),
    ]
    assert not spec.if_set("a").must_be_at_most(6)
    assert spec.if_set("b").must_be_at_least(1)


def test_a_field_must_exist_or_must_not() -> None:
    root = Field({"a": 0})
    assert root.at("a").must_exist("x")
    assert not root.at("b").must_exist("required")
    assert root.at("b").must_not_exist("x")
    assert not root.at("a").must_not_exist("forbidden")
    assert [f"{error.field}: {error.message}" for error in root.errors] == [
        "b: Required value: required",
        "a: Forbidden: forbidden",
    ]


def test_each_item_of_a_list_must_obey() -> None:
    root = Field({"items": ["a", "", "a"]})
    items = root.at("items")
    assert not items.must_all_obey(Field.must_be_set, "why")
    assert not items.must_all_pass(lambda text: ["empty", "short"] if not text else [])
    assert not items.must_all_be_one_of(["a"])
    assert not items.must_have_no_duplicates()
    assert root.at("absent").must_all_pass(lambda text: ["never"])
    assert [f"{error.field}: {error.message}" for error in root.errors] == [
        "items[1]: Required value: why",
        'items[1]: Invalid value: "": empty',
        'items[1]: Invalid value: "": short',
        'items[1]: Unsupported value: "": supported values: "a"',
        'items[2]: Duplicate value: "a"',
    ]


def test_values_and_fields_can_be_excluded() -> None:
    root = Field({"a": 1, "b": None})
    assert root.at("a").must_not_be_in((2, 3), "x")
    assert not root.at("a").must_not_be_in((1, 2), "taken")
    assert root.must_have_none_of(("c", "d"), "x")
    assert not root.must_have_none_of(("c", "a", "b"), "not here")
    assert [f"{error.field}: {error.message}" for error in root.errors] == [
        "a: Invalid value: 1: taken",
        "a: Forbidden: not here",
        "b: Forbidden: not here",
    ]


def test_errors_of_all_fields_are_in_one_list_and_returned() -> None:
    root = Field(OBJECT)
    ports = root.at("spec").at("ports")
    found = [ports.forbidden("not here"), ports.showing(5).invalid("wrong")]
    assert root.errors == found
    assert [f"{error.field}: {error.message}" for error in found] == [
        "spec.ports: Forbidden: not here",
        "spec.ports: Invalid value: 5: wrong",
    ]


def test_values_in_errors_are_written_as_by_go() -> None:
    error = Field({"x": ["<&>\u2028"]}).invalid("wrong")
    assert error.message == 'Invalid value: {"x":["\\u003c\\u0026\\u003e\\u2028"]}: wrong'
    assert Field("<&>").invalid("wrong").message == 'Invalid value: "<&>": wrong'
