"""Directories without an entry in a layer's archive: their attributes are those of lower layers."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from bridgehead.images import archives
from bridgehead.images.store import garbage_collection
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.image_record import ImageRecord
from tests.image_files import archive_of, image_of, layer_of

Members = list[tuple[str, Any]]


def directory(mode: int, mtime: int = 12) -> dict[str, Any]:
    return {"type": tarfile.DIRTYPE, "mode": mode, "mtime": mtime, "uid": os.getuid(), "gid": os.getgid()}


OPEN = directory(0o1777)
CLOSED = directory(0o700)


def load(store: ContentStore, *layers: Members, name: str = "registry.example/app:1") -> ImageRecord:
    image = image_of(*(layer_of(members) for members in layers))
    [record] = archives.load(store, io.BytesIO(archive_of(name, image)))
    return record


def shown(store: ContentStore, record: ImageRecord) -> dict[str, str]:
    """The directories in the layer of implied ones, with their modes."""
    if not record.implied:
        return {}
    root = store.layer_path(record.implied)
    return {str(path.relative_to(root)): oct(stat.S_IMODE(path.stat().st_mode))[2:] for path in root.rglob("*")}


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([[("tmp/", OPEN)], [("tmp/x", "")]], {"tmp": "1777"}),
        ([[("tmp/", OPEN)], [("tmp/x", "")], [("tmp/y", "")]], {"tmp": "1777"}),
        ([[("tmp/", OPEN)], [("tmp/x", "")], [("a", "")]], {"tmp": "1777"}),
        ([[("tmp/", OPEN)], [("tmp/", CLOSED)], [("tmp/x", "")]], {"tmp": "700"}),
        # Parents of such a directory, and others beside it.
        ([[("a/", CLOSED), ("a/b/", OPEN)], [("a/b/c/d", "")]], {"a": "700", "a/b": "1777"}),
        ([[("a/", OPEN), ("a/b/", OPEN)], [("a/", CLOSED), ("a/b/x", "")]], {"a": "700", "a/b": "1777"}),
        ([[("a/b/x", "")], [("a/b/", OPEN)], [("a/b/y", "")]], {"a": "755", "a/b": "1777"}),
        # These need no correction: an entry comes later, or above, or no lower layer has an entry.
        ([[("tmp/", OPEN)], [("tmp/x", ""), ("tmp/", CLOSED)]], {}),
        ([[("tmp/", OPEN)], [("tmp/x", "")], [("tmp/", CLOSED)]], {}),
        ([[("app/x", "")], [("app/y", "")], [("else/", OPEN)]], {}),
        ([[("tmp/x", "")]], {}),
        # These hide the lower directory as a whole.
        ([[("tmp/", OPEN)], [("tmp/x", ""), ("tmp/.wh..wh..opq", "")]], {}),
        ([[("tmp/", OPEN)], [(".wh.tmp", "")], [("tmp/x", "")]], {}),
        ([[("tmp/", OPEN)], [(".wh.tmp", ""), ("tmp/x", "")]], {}),
        ([[("tmp/", OPEN)], [("tmp", "a file")], [("tmp/x", "")]], {}),
        ([[("tmp/", OPEN)], [("tmp/x", "")], [(".wh.tmp", "")]], {}),
        ([[("a/", OPEN), ("a/b/", OPEN)], [("a/b/x", ""), ("a/.wh..wh..opq", "")]], {}),
    ],
)
def test_an_implied_directory_looks_as_in_the_highest_entry_below(
    tmp_path: Path, layers: list[Members], expected: dict[str, str]
) -> None:
    store = ContentStore(tmp_path)
    assert shown(store, load(store, *layers)) == expected


def test_all_attributes_are_those_of_the_entry(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    records = {"pax_headers": {"SCHILY.xattr.user.author": "somebody", "SCHILY.xattr.user.bridgehead.implied": ""}}
    record = load(store, [("./", CLOSED), ("a/", {**OPEN, **records}), ("a/b/", OPEN)], [("./", OPEN), ("a/b/x", "")])
    root = store.layer_path(record.implied)
    assert {path.stat().st_mtime for path in (root / "a", root / "a/b")} == {12}
    assert stat.S_IMODE(root.stat().st_mode) == 0o1777
    assert os.listxattr(root / "a") == ["user.author"]
    assert not os.listxattr(root / "a/b")


def test_images_share_a_layer_and_differ_in_what_it_implies(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    app = [("tmp/x", "")]
    first = load(store, [("tmp/", OPEN)], app)
    second = load(store, [("tmp/", CLOSED)], app, name="registry.example/app:2")
    assert first.layers[1] == second.layers[1]
    assert (shown(store, first), shown(store, second)) == ({"tmp": "1777"}, {"tmp": "700"})


def test_the_layer_is_kept_and_removed_with_its_image(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    record = load(store, [("tmp/", OPEN)], [("tmp/x", "")])
    garbage_collection.collect(store)
    assert store.find(record.name) == record
    assert record.root_layers == (*record.layers, record.implied)
    store.remove_record(record.name)
    garbage_collection.collect(store)
    assert not list((tmp_path / "layers").iterdir())
