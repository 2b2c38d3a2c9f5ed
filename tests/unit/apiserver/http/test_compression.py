"""Compression of large answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import pytest

from bridgehead.apiserver.http.compression import THRESHOLD_BYTES, accepts_gzip
from tests.unit.apiserver.world import World, open_world

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
GZIP = {"accept-encoding": "deflate, gzip"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        for number in range(20):
            obj = {"metadata": {"name": f"c{number:03}"}, "data": {"k": "v" * 8000}}
            await world.create(CONFIG_MAPS, obj)
        await world.create(CONFIG_MAPS, {"metadata": {"name": "large"}, "data": {"k": "v" * THRESHOLD_BYTES}})
        yield world


@pytest.mark.parametrize("accept", ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])
async def test_large_answers_are_compressed(world, accept):
    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}/large"):
        plain = await world.call("GET", path, headers={"accept": accept})
        answer = await world.call("GET", path, headers={"accept": accept, **GZIP})
        assert answer.header("content-encoding") == ["gzip"]
        assert "Accept-Encoding" in answer.header("vary")
        assert len(answer.body) < len(plain.body) / 5
        assert gzip.decompress(answer.body) == plain.body
        assert plain.header("content-encoding") == []


async def test_small_answers_and_watches_are_not_compressed(world):
    answer = await world.call("GET", f"{CONFIG_MAPS}/c000", headers=GZIP)
    assert answer.header("content-encoding") == []
    assert json.loads(answer.body)["kind"] == "ConfigMap"
    watch = await world.watch(CONFIG_MAPS, headers=GZIP)
    assert watch.answer.header("content-encoding") == []
    await watch.leave()


@pytest.mark.parametrize(
    ("header", "expected"),
    [(b"", False), (b"gzip", True), (b"br , gzip", True), (b"gzip;q=0.5", False), (b"identity", False)],
)
def test_names_of_encodings(header, expected):
    assert accepts_gzip(header) is expected
