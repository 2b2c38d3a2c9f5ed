"""Collection of images and layers: those that images need, that containers use or that are young stay."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

import pytest

from bridgehead.images.disk_usage import DiskUsage, format_size
from bridgehead.images.manifests import digest_of
from bridgehead.images.store import garbage_collection, layer_locks
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.image_record import ImageRecord
from bridgehead.images.store.layer_locks import LayerLocks

GiB = 1 << 30


@pytest.mark.parametrize(
    ("capacity", "available", "percent", "wanted"),
    [
        (100 * GiB, 16 * GiB, 84, 0),
        (100 * GiB, 15 * GiB, 85, 5 * GiB),
        (100 * GiB, 0, 100, 20 * GiB),
        (0, 0, 0, 0),
    ],
)
def test_a_collection_begins_above_the_high_threshold_and_ends_at_the_low_one(
    capacity: int, available: int, percent: int, wanted: int
) -> None:
    usage = DiskUsage(capacity, available)
    assert (usage.percent, usage.bytes_to_free(85, 80)) == (percent, wanted)


def test_sizes_are_formatted_as_kubelets_do() -> None:
    assert [format_size(size) for size in (0, 1023, 1 << 20, 123_156_119_552)] == [
        "0 B",
        "1023 B",
        "1.0 MiB",
        "114.7 GiB",
    ]


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path)


def add_image(store: ContentStore, name: str, *layers: str, age: float = 1000, is_pinned: bool = False) -> ImageRecord:
    """Add an image with layers that have one file each. `age` is that of the last use in seconds."""
    diff_ids = tuple(digest_of(layer.encode()) for layer in layers)
    for diff_id in diff_ids:
        with store.new_layer(diff_id) as directory:
            (directory / "file").write_bytes(bytes(10_000))
    config = store.add_blob(name.partition(":")[0].encode())
    record = ImageRecord(name=name, digest="", manifest=config, config=config, layers=diff_ids, is_pinned=is_pinned)
    store.add_record(record)
    [path] = [path for path in (store.root / "names").iterdir() if f'"{name}"'.encode() in path.read_bytes()]
    os.utime(path, (time.time() - age,) * 2)
    return record


def names(store: ContentStore) -> list[str]:
    return [record.name for record in store.records()]


def layers(store: ContentStore) -> int:
    return len(list((store.root / "layers").iterdir()))


def test_the_least_recently_used_images_are_removed_until_enough_is_free(store: ContentStore) -> None:
    for name, age in (("middle", 600), ("oldest", 900), ("newest", 300)):
        add_image(store, name, name, age=age)
    removed = garbage_collection.free_space(store, 20_000, 120)
    assert removed is not None
    assert removed.size >= 20_000
    assert names(store) == ["newest"]
    assert layers(store) == 1


def test_images_that_are_young_or_pinned_or_used_stay(store: ContentStore) -> None:
    add_image(store, "young", "a", age=60)
    add_image(store, "pinned", "b", is_pinned=True)
    used = add_image(store, "used", "base", "c")
    add_image(store, "base", "base")
    add_image(store, "unused", "base", "d")
    locks = LayerLocks()
    paths = [str(store.layer_path(layer)) for layer in used.layers]
    locks.acquire(paths)
    garbage_collection.free_space(store, GiB, 120)
    assert names(store) == ["base", "pinned", "used", "young"]  # without base nothing more would be free
    assert layers(store) == 4
    locks.release(paths)
    garbage_collection.free_space(store, GiB, 120)
    assert names(store) == ["pinned", "young"]


def test_an_image_is_as_young_as_the_last_use_of_any_of_its_names(store: ContentStore) -> None:
    for name in ("app:1", "app:2"):
        add_image(store, name, "layer")
    store.mark_used("app:2", time.time() - 60)
    store.mark_used("app:2", time.time() - 700)  # of a node that used it earlier
    store.mark_used("never-pulled", time.time())
    garbage_collection.free_space(store, GiB, 120)
    assert names(store) == ["app:1", "app:2"]
    garbage_collection.free_space(store, GiB, 30)
    assert names(store) == []


def test_pulls_add_those_who_may_use_an_image(store: ContentStore) -> None:
    config = store.add_blob(b"{}")

    def pulled(digest: str, *restricted_to: str) -> tuple[str, ...]:
        record = ImageRecord(name="app", digest=digest, manifest="", config=config, restricted_to=restricted_to)
        store.add_pulled(record)
        found = store.find("app")
        assert found is not None
        return found.restricted_to

    assert pulled("one", "a") == ("a",)
    assert pulled("one", "b") == ("a", "b")
    assert pulled("one", "a") == ("b", "a")
    assert pulled("two", "c") == ("c",)  # other content
    assert pulled("two") == ()
    assert pulled("two", "d") == ()  # all could use it already


def test_layers_of_a_removed_image_stay_while_a_container_uses_them(store: ContentStore) -> None:
    """An image that is deleted while it runs."""
    record = add_image(store, "app", "one", "two")
    locks, one = LayerLocks(), str(store.layer_path(record.layers[0]))
    locks.acquire([one])
    locks.acquire([one])
    store.remove_record("app")
    garbage_collection.collect(store)
    assert (layers(store), layer_locks.is_used(Path(one))) == (1, True)
    locks.release([one])
    garbage_collection.collect(store)
    assert layers(store) == 1
    locks.release([one])
    assert not layer_locks.is_used(Path(one))
    garbage_collection.collect(store)
    assert (layers(store), layer_locks.is_used(Path(one))) == (0, False)


def test_layers_that_are_gone_or_being_removed_are_not_locked(store: ContentStore) -> None:
    record = add_image(store, "app", "one", "two")
    paths = [str(store.layer_path(layer)) for layer in record.layers]
    with layer_locks.removing(Path(paths[1])) as is_free:
        assert is_free
        with pytest.raises(FileNotFoundError):
            LayerLocks().acquire(paths)
    with layer_locks.removing(Path(paths[0])) as is_free:
        assert is_free  # none of them stays locked
    with pytest.raises(FileNotFoundError):
        LayerLocks().acquire([*paths, f"{paths[0]}x"])


def test_a_look_whether_a_layer_is_used_stops_no_container(
    store: ContentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look takes the exclusive lock for a moment."""
    path = store.layer_path(add_image(store, "app", "one").layers[0])
    with contextlib.ExitStack() as looking:
        looking.enter_context(layer_locks.removing(path))
        monkeypatch.setattr(time, "sleep", lambda _: looking.close())
        LayerLocks().acquire([str(path)])


def test_a_layer_that_was_unpacked_anew_meanwhile_is_not_taken_for_the_old_one(
    store: ContentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.layer_path(add_image(store, "app", "one").layers[0])
    lock = fcntl.flock

    def replace(descriptor: int, how: int) -> None:
        lock(descriptor, how)
        path.rename(path.with_name("old"))
        path.mkdir()

    monkeypatch.setattr(fcntl, "flock", replace)
    with pytest.raises(FileNotFoundError, match="was removed"):
        LayerLocks().acquire([str(path)])
