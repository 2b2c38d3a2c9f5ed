"""Layers as directories: what each entry becomes, and that no archive changes anything outside."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.images.errors import BadImage, StoreFailed
from bridgehead.images.store import disk, entries, unpacking, whiteouts
from bridgehead.images.store.unpacking import Bounds, Unpacked, unpack
from tests.image_files import Blob, compress, layer_of, tar_of

LINK = {"type": tarfile.SYMTYPE}
HARD = {"type": tarfile.LNKTYPE}
SPARSE = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40)}  # a hole of a tebibyte


def unpack_blob(tmp_path: Path, layer: Blob, **bounds: int) -> Unpacked:
    """Unpack to tmp_path/world/layer; `outside` beside it is what hostile archives aim at."""
    blob = tmp_path / "blob"
    blob.write_bytes(layer.content)
    target = tmp_path / "world" / "layer"
    target.mkdir(parents=True)
    return unpack(blob, layer.diff_id, target, Bounds(**bounds))


def unpack_entries(tmp_path: Path, *members: tuple[str, Any], compression: str = "none") -> Path:
    unpack_blob(tmp_path, layer_of(members, compression))
    return tmp_path / "world" / "layer"


def names_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_files_keep_content_mode_owner_and_time(tmp_path: Path, compression: str) -> None:
    uid, gid = os.getuid(), os.getgid()
    root = unpack_entries(
        tmp_path,
        ("./", None),
        ("etc/", {"type": tarfile.DIRTYPE, "mode": 0o750, "mtime": 12}),
        ("etc/passwd", {"data": "root:x:0:0\n" * 100_000, "mode": 0o640, "uid": uid, "gid": gid}),
        ("bin/su", {"data": "", "mode": 0o4755, "uid": uid, "gid": gid}),
        ("bin/sh", {**LINK, "linkname": "su"}),
        ("bin/bash", {**HARD, "linkname": "bin/su"}),
        ("run/pipe", {"type": tarfile.FIFOTYPE, "mode": 0o600}),
        compression=compression,
    )
    passwd = (root / "etc/passwd").stat()
    assert (passwd.st_size, stat.S_IMODE(passwd.st_mode), passwd.st_mtime) == (1_100_000, 0o640, 1_700_000_000)
    assert (stat.S_IMODE((root / "etc").stat().st_mode), (root / "etc").stat().st_mtime) == (0o750, 12)
    assert stat.S_IMODE((root / "bin/su").stat().st_mode) == 0o4755
    assert (root / "bin/su").samefile(root / "bin/bash")
    assert os.readlink(root / "bin/sh") == "su"
    assert stat.S_ISFIFO((root / "run/pipe").lstat().st_mode)


@pytest.mark.parametrize(
    "members",
    [
        [("../../outside/victim", "evil")],
        [("a/../../../outside/victim", "evil")],
        [("/outside/victim", "evil")],
        [("up", {**LINK, "linkname": "../../outside"}), ("up/victim", "evil")],
        [("up", {**LINK, "linkname": "/"}), ("up/outside/victim", "evil")],
        [("a", {**LINK, "linkname": "../.."}), ("b", {**LINK, "linkname": "a/outside"}), ("b/victim", "evil")],
        [("victim", {**LINK, "linkname": "../../outside/victim"}), ("victim", "evil")],
        [("outside/victim", ""), ("hard", {**HARD, "linkname": "../../outside/victim"}), ("hard", "evil")],
        [("up", {**LINK, "linkname": "../../outside"}), ("up/.wh.victim", "")],
        [("up", {**LINK, "linkname": "../../outside"}), ("up/.wh..wh..opq", "")],
        [("up", {**LINK, "linkname": "../../outside"}), ("up/dir", {"type": tarfile.DIRTYPE, "mode": 0o777})],
        [("up", {**LINK, "linkname": "../../outside"}), ("up", {"type": tarfile.DIRTYPE, "mode": 0o777})],
        [("proc", {**LINK, "linkname": "/proc/self/cwd"}), ("proc/outside/victim", "evil")],
        [("l", {**LINK, "linkname": "../../outside/victim"}), ("h", {**HARD, "linkname": "l"}), ("h", "evil")],
        [("l", {**LINK, "linkname": "../../outside"}), ("h", {**HARD, "linkname": "l"}), ("h/victim", "evil")],
        [("l", {**LINK, "linkname": "../../outside"}), ("h", {**HARD, "linkname": "l/victim"}), ("h", "evil")],
        [("a/f", ""), ("a", {**LINK, "linkname": "../../outside"}), ("a/victim", "evil")],
        [("a/b/f", ""), ("a", {**LINK, "linkname": "../.."}), ("a/b/victim", "evil"), ("a/outside/victim", "evil")],
        [("a/f", ""), ("b/f", ""), ("a", {**LINK, "linkname": "b"}), ("b", {**LINK, "linkname": "../../outside"}),
         ("a/victim", "evil")],
        [("d", {**LINK, "linkname": "../../outside"}), ("d/.wh..", ""), (".wh...", "")],
        [("../outside/.wh.victim", ""), ("../../outside/.wh..wh..opq", "")],
        [("x", {**LINK, "linkname": "../../outside", "pax_headers": {"SCHILY.xattr.user.evil": "1"}})],
        [("up", {**LINK, "linkname": "../../outside"}), ("up/victim", {**HARD, "linkname": "up/../../outside/victim"})],
    ],
)  # fmt: skip
def test_no_archive_changes_anything_outside(tmp_path: Path, members: list[tuple[str, Any]]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "victim").write_text("untouched")
    before = outside.stat()
    with contextlib.suppress(BadImage):
        unpack_entries(tmp_path, *members)
    assert (outside / "victim").read_text() == "untouched"
    assert (outside / "victim").stat().st_nlink == 1
    after = outside.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert os.listdir(outside) == ["victim"]
    assert os.listxattr(outside) == []
    assert sorted(os.listdir(tmp_path)) == ["blob", "outside", "world"]


def test_a_hard_link_to_a_file_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(BadImage, match="No such file"):
        unpack_entries(tmp_path, ("stolen", {**HARD, "linkname": str(tmp_path / "secret")}))


@pytest.mark.parametrize(
    "members",
    [
        [("f", {**HARD, "linkname": "f"})],
        [("f", "1"), ("f", {**HARD, "linkname": "f"})],
        [("d/f", "1"), ("h", {**HARD, "linkname": "d"})],
        [("h", {**HARD, "linkname": ".."})],
        [("l", {**LINK, "linkname": "l"}), ("l/f", "1")],
        [("l", {**LINK, "linkname": "l", "pax_headers": {"linkpath": "a\0b"}})],
        [("f", {"data": "1", "pax_headers": {"path": "a\0b"}})],
        [("f", {"data": "1", "pax_headers": {"SCHILY.xattr.user.a\0b": "1"}})],
        [(".wh...", "")],
        [("d/.wh..", "")],
    ],
)
def test_entries_that_cannot_be_made_are_refused(tmp_path: Path, members: list[tuple[str, Any]]) -> None:
    with pytest.raises(BadImage, match=r"invalid|cannot be made|hard link to its root"):
        unpack_entries(tmp_path, *members)


def test_numbers_that_no_file_can_have(tmp_path: Path) -> None:
    """Base-256 numbers of a GNU header, and PAX records. A file of an id that cannot exist is no program of root."""
    huge = {"mtime": 1 << 80, "mode": 0o6755}
    members: list[tuple[str, Any]] = [
        ("d", {**huge, "type": tarfile.DIRTYPE, "uid": 1 << 40}),
        ("d/none", {**huge, "data": "", "uid": (1 << 32) - 1}),
        ("d/negative", {**huge, "data": "", "gid": -1}),
        ("d/huge", {**huge, "data": "", "uid": 1 << 55, "gid": -2}),
        ("d/link", {**huge, **LINK, "linkname": "x", "uid": -1}),
    ]
    archive = tar_of(members, tarfile.GNU_FORMAT)
    assert unpack_blob(tmp_path, compress(archive, "none")).foreign_owners == len(members)
    root = tmp_path / "world" / "layer"
    assert names_below(root) == {name for name, _ in members}
    assert not any(path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID) for path in root.rglob("*"))


@pytest.mark.parametrize("size", [-1, -(1 << 40), 1 << 70])
def test_sizes_that_no_file_can_have(tmp_path: Path, size: int) -> None:
    archive = io.BytesIO()
    member = tarfile.TarInfo("f")
    member.size = size
    archive.write(member.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(BadImage, match="a size of"):
        unpack_blob(tmp_path, compress(archive.getvalue() + bytes(2048), "none"))


def test_devices_are_left_out(tmp_path: Path) -> None:
    disk = {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0}
    layer = layer_of([("dev/sda", disk), ("dev/null", {"type": tarfile.CHRTYPE}), ("file", "")])
    assert unpack_blob(tmp_path, layer).skipped_devices == 2
    assert names_below(tmp_path / "world" / "layer") == {"file"}


@pytest.mark.skipif(os.geteuid() != 0, reason="whiteouts are devices, which root of a user namespace makes")
def test_whiteouts_and_opaque_directories_have_overlayfs_form(tmp_path: Path) -> None:
    root = unpack_entries(
        tmp_path,
        ("etc/.wh.motd", ""),
        ("var/.wh..wh..opq", ""),
        ("var/log", ""),
        ("a/.wh..wh.plnk/1.2", ""),
        ("a/.wh..wh.aufs", ""),
        ("kept", "new"),
        (".wh.kept", ""),
        (".wh.replaced", ""),
        ("replaced", "new"),
        (".wh.before", ""),
        ("before", None),
        ("after", None),
        (".wh.after", ""),
        (".wh.above", ""),
        ("above/below/file", ""),
        (".wh.file", ""),
    )
    motd = (root / "etc/motd").lstat()
    assert stat.S_ISCHR(motd.st_mode)
    assert motd.st_rdev == 0
    assert os.getxattr(root / "var", "user.overlay.opaque") == b"y"
    above = {"above", "above/below", "above/below/file", "file"}
    assert names_below(root) == {"etc", "etc/motd", "var", "var/log", "kept", "replaced", "before", "after"} | above
    for name in ("before", "after", "above"):  # a directory that replaces the lower layers' one
        assert (root / name).is_dir()
        assert os.getxattr(root / name, "user.overlay.opaque") == b"y"
    assert (root / "kept").read_text() == (root / "replaced").read_text() == "new"


def test_where_nobody_can_make_devices_whiteouts_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An overlay does not let devices be made. The kernel recognizes such files in directories marked with `x`, not in
    opaque ones."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "mknod", refuse)
    root = unpack_entries(
        tmp_path,
        ("etc/.wh.motd", ""),
        ("var/.wh.log", ""),
        ("var/.wh..wh..opq", ""),
        ("var/.wh.tmp", ""),
        (".wh.above", ""),
        ("above/below", ""),
        (".wh.before", ""),
        ("before", None),
        (".wh.replaced", ""),
        ("replaced", "new"),
        (".wh.replaced", ""),
    )
    assert names_below(root) == {"above", "above/below", "before", "etc", "etc/motd", "replaced", "var"}
    assert os.listxattr(root / "etc/motd") == ["user.overlay.whiteout"]
    assert whiteouts.are_present(str(root))
    opaque = {name: os.getxattr(root / name, "user.overlay.opaque") for name in ("above", "before", "etc", "var")}
    assert opaque == {"above": b"y", "before": b"y", "etc": b"x", "var": b"y"}
    assert (root / "replaced").read_text() == "new"


def test_only_a_layer_with_whiteouts_is_marked(tmp_path: Path) -> None:
    assert not whiteouts.are_present(str(unpack_entries(tmp_path, ("file", ""), ("var/.wh..wh..opq", ""))))


def test_attributes_of_overlayfs_are_not_taken_from_an_archive(tmp_path: Path) -> None:
    headers = {"SCHILY.xattr.user.overlay.redirect": "/secret", "SCHILY.xattr.user.kept": "1"}
    root = unpack_entries(tmp_path, ("file", {"data": "", "pax_headers": headers}))
    assert os.listxattr(root / "file") == ["user.kept"]


def test_a_later_entry_replaces_an_earlier_one(tmp_path: Path) -> None:
    root = unpack_entries(
        tmp_path,
        ("a/b/c", "1"),
        ("a", "file"),
        ("a", None),
        ("a/d", "2"),
        ("d", {**LINK, "linkname": "a"}),
        ("d", None),
    )
    assert names_below(root) == {"a", "a/d", "d"}
    assert not (root / "d").is_symlink()


@pytest.mark.parametrize(
    ("layer", "bounds", "message"),
    [
        (layer_of([("zeros", bytes(2_000_000))]), {"size": 1_000_000}, "more than 1000000 bytes"),
        (layer_of([(str(number), "") for number in range(5)]), {"entries": 4}, "more than 4 entries"),
        (layer_of([("/".join("d" * 201) + "/f", "")]), {}, "more than 200 nested directories"),
        (layer_of([("/".join("d" * 2000) + "/f", "")]), {}, "more than 200 nested directories"),
        (layer_of([("hole", {"pax_headers": SPARSE})]), {"size": 1_000_000}, "more than 1000000 bytes"),
        (layer_of([("f", {"pax_headers": {"comment": "x" * 1_100_000}})]), {}, "a header of 11"),
        (layer_of([("f" * 1_100_000, "")]), {}, "a header of 11"),
        (layer_of([("d/", {"type": tarfile.DIRTYPE, "pax_headers": {"mtime": "inf"}})]), {}, "invalid entry"),
        (layer_of([("l", {**LINK, "linkname": "x", "pax_headers": {"mtime": "inf"}})]), {}, "invalid entry"),
        (compress(b"this is no archive" * 100, "gzip"), {}, "not a tar archive"),
        (layer_of([("f" * 300, "")]), {}, "invalid path"),
        (layer_of([(".wh.", "")]), {}, "invalid whiteout"),
        (Blob(layer_of([("f", "x" * 5000)]).content[:-20], ""), {}, "truncated"),
        (Blob(layer_of([("f", "")]).content, "", "sha256:" + "0" * 64), {}, "when it is unpacked, not"),
        (compress(tar_of([("f", "x" * 5000)])[:1024], "none"), {}, "ends inside|not a tar|unexpected end"),
    ],
)
def test_layers_beyond_the_bounds_are_refused(
    tmp_path: Path, layer: Blob, bounds: dict[str, int], message: str
) -> None:
    with pytest.raises(BadImage, match=message):
        unpack_blob(tmp_path, layer._replace(diff_id=layer.diff_id or "sha256:" + "1" * 64), **bounds)


def test_a_full_disk_is_no_fault_of_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LEAST_FREE", 1 << 62)
    monkeypatch.setattr(unpacking, "_CHECK_EVERY", 1000)
    with pytest.raises(StoreFailed, match="no space left"):
        unpack_entries(tmp_path, ("zeros", bytes(20_000)), compression="gzip")


def apply(layers: list[dict[str, Any]]) -> dict[str, str]:
    """The files of an image, by the specification: a model of flat names in two directories."""
    files: dict[str, str] = {}
    for layer in layers:
        for path in layer:
            directory, _, name = path.rpartition("/")
            if name == ".wh..wh..opq":
                files = {file: text for file, text in files.items() if not file.startswith(f"{directory}/")}
            elif name.startswith(".wh."):
                files.pop(f"{directory}/{name.removeprefix('.wh.')}", None)
        files |= {path: text for path, text in layer.items() if "/.wh." not in path}
    return files


def overlay_of(layers: list[Path]) -> dict[str, str]:
    """The files that overlayfs shows, by its documentation."""
    files: dict[str, str] = {}
    for layer in layers:
        for directory in (path for path in layer.iterdir() if path.is_dir()):
            if "user.overlay.opaque" in os.listxattr(directory):
                files = {name: text for name, text in files.items() if not name.startswith(f"{directory.name}/")}
            for path in directory.iterdir():
                name = f"{directory.name}/{path.name}"
                if path.is_file():
                    files[name] = path.read_text()
                else:
                    files.pop(name, None)
    return files


LAYERS = st.lists(
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", ".wh.x", ".wh.y", ".wh..wh..opq"])).map("/".join),
        st.sampled_from("12"),
        max_size=5,
    ),
    max_size=4,
)


@pytest.mark.skipif(os.geteuid() != 0, reason="whiteouts are devices, which root of a user namespace makes")
@given(LAYERS)
def test_layers_over_each_other_show_what_the_specification_promises(
    tmp_path_factory: pytest.TempPathFactory, layers: list[dict[str, str]]
) -> None:
    base = tmp_path_factory.mktemp("layers")
    paths = []
    for number, layer in enumerate(layers):
        (base / str(number)).mkdir()
        paths.append(unpack_entries(base / str(number), *layer.items()))
    assert overlay_of(paths) == apply(layers)


@given(st.text(alphabet="./ab\0é", max_size=30))
def test_paths_stay_inside(path: str) -> None:
    try:
        target = entries.target_of(path)
    except BadImage:
        return
    for part in f"{target.directory}/{target.name}".split("/")[1:]:
        assert part not in (".", "..")
        assert "\0" not in part


def test_the_digest_covers_what_follows_the_archive(tmp_path: Path) -> None:
    content = tar_of([("f", "1")]) + bytes(20_000)
    unpack_blob(tmp_path, compress(content, "gzip"))
