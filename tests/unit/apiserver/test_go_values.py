"""Values and errors as Go prints them."""

import pytest

from bridgehead.apiserver.go_values import conversion_error, go_type, go_value, number_text
from tests.unit.apiserver.world import open_world


def test_values_are_printed_as_by_fmt():
    assert go_value({"b": [1, True, None], "a": {"x": "y z"}}) == "map[a:map[x:y z] b:[1 true <nil>]]"
    assert [go_type(value) for value in (1, 1.5, "", True, [], {}, None)] == [
        *("int64", "float64", "string", "bool", "[]interface {}", "map[string]interface {}", "nil")
    ]


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ({"metadata": {"labels": "invalid"}}, "cannot restore map from string"),
        ({"metadata": {"labels": {"a": 1}}}, "cannot convert int64 to string"),
        ({"metadata": {"labels": {"a": True}}}, "unrecognized type: string"),
        ({"metadata": {"finalizers": {}}}, "cannot restore slice from map"),
        ({"spec": [1]}, "cannot restore struct from: slice"),
        ({"spec": {"replicas": "2"}}, "unrecognized type: int32"),
        ({"spec": {"replicas": 1.5}}, "cannot convert float64 to int32"),
    ],
)
async def test_a_strategic_merge_patch_of_a_wrong_type_has_the_error_of_the_converter(patch, error):
    async with open_world() as world:
        url = "/apis/apps/v1/namespaces/default/deployments"
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        await world.create(url, {"metadata": {"name": "web"}, "spec": spec})
        answer = await world.patch(f"{url}/web", patch, "strategic-merge-patch")
        (cause,) = answer.json["details"]["causes"]
        assert (answer.status, cause["message"]) == (422, f'Invalid value: "{go_value(patch)}": {error}')


async def test_an_item_without_its_merge_key_is_printed_as_by_fmt():
    async with open_world() as world:
        url = "/api/v1/namespaces/default/services"
        await world.create(url, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
        answer = await world.patch(f"{url}/s", {"spec": {"ports": [{"name": "a b"}]}}, "strategic-merge-patch")
        assert answer.json["message"] == "map: map[name:a b] does not contain declared merge key: port"


def test_each_type_has_an_error():
    assert conversion_error("array", "bool") == "unrecognized type: bool"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (5, "5"),
        (5.0, "5"),
        (0.5, "0.5"),
        (-2.5, "-2.5"),
        (1e6, "1e+06"),
        (-1.5e7, "-1.5e+07"),
        (1e-5, "1e-05"),
        (1e22, "1e+22"),
        (-3e-7, "-3e-07"),
        (0.0, "0"),
        (1234567.5, "1.2345675e+06"),
        (123456.5, "123456.5"),
    ],
)
def test_numbers_look_as_in_go(number: float, text: str) -> None:
    assert number_text(number) == text
