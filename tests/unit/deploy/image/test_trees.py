"""Archives of layers: the same bytes for the same files, and nothing of the machine that makes them."""

from __future__ import annotations

import io
import tarfile

from deploy.image.trees import Tree, entry_of

from tests.image_files import Entry, tar_of


def read(archive: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        return file.getmembers()


def test_an_archive_is_sorted_and_has_the_directories() -> None:
    first, second = Tree(), Tree()
    first.add_file("b/c", b"1")
    first.add_link("a", "b")
    second.add_link("a", "b")
    second.add_file("b/c", b"1")
    assert first.archive() == second.archive()
    assert [(member.name, member.type) for member in read(first.archive())] == [
        ("a", tarfile.SYMTYPE),
        ("b", tarfile.DIRTYPE),
        ("b/c", tarfile.REGTYPE),
    ]


def test_owners_times_and_rights_of_others_are_dropped() -> None:
    entries: list[tuple[str, Entry]] = [
        ("program", {"data": b"x", "mode": 0o4755, "uid": 7, "mtime": 1}),
        ("same", {"type": tarfile.LNKTYPE, "linkname": "./program"}),
        ("device", {"type": tarfile.CHRTYPE}),
    ]
    tree = Tree()
    with tarfile.open(fileobj=io.BytesIO(tar_of(entries))) as archive:
        for member in archive:
            if (entry := entry_of(archive, member)) is not None:
                tree.entries[member.name] = entry
    program, same = read(tree.archive())
    assert (program.mode, program.uid, program.mtime) == (0o755, 0, same.mtime)
    assert same.linkname == "program"
