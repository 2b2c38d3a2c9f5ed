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
    root = Field(OBJECT)
    root.at("status").required()
    assert root.at("spec").must_obey(Field.must_be_set)
    assert not root.at("metadata").must_obey(Field.must_be_set)
    assert [error.field for error in root.errors] == ["status", "metadata"]


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
