"""Work in a lab's content store by a child process, which gives up the user's rights for that."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from bridgehead.images.errors import BadImage, ImageError
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.image_record import ImageRecord
from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabFiles


def do_in_child(
    files: LabFiles, work: Callable[[ContentStore], str | None], attend: Callable[[int], int] | None = None
) -> str:
    """Open the store in a child, which gives up the user's rights by that; this process keeps them.

    Return the result of `work`. `attend` returns the child's exit status after its end. Raises `LabError` with the
    child's reason.
    """
    from bridgehead.lab.content_access import open_content

    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        status, answer = 1, ""
        try:
            os.close(reading)  # otherwise a long answer waits for ever when the parent was killed
            answer = work(open_content(files)) or ""
            status = 0
        except (ImageError, LabError) as error:
            answer = str(error)
        except OSError as error:
            answer = f"{error.filename or 'the image store'}: {error.strerror}"
        except KeyboardInterrupt:
            answer = "interrupted"
        except BaseException as error:  # noqa: BLE001 - forked: must not return into the command's stack
            answer = f"{type(error).__name__}: {error}"
        finally:
            try:
                # Also the flush at the end of `open` fails without a reader.
                with contextlib.suppress(OSError), open(writing, "w", encoding="utf-8", errors="replace") as pipe:
                    pipe.write(answer)
            finally:
                os._exit(status)
    os.close(writing)
    if attend is None:
        with open(reading, encoding="utf-8", errors="replace") as pipe:
            answer = pipe.read()
        status = os.waitpid(pid, 0)[1]
    else:
        status = attend(pid)
        with open(reading, encoding="utf-8", errors="replace") as pipe:
            answer = pipe.read()
    if status:
        raise LabError(answer or f"the images of {files.root} cannot be read")
    return answer


def load_sources(store: ContentStore, sources: list[tuple[Path, BinaryIO, bool]], tag: str) -> list[ImageRecord]:
    """Add the images of `open_source` to the store: path, archive, and whether it is a root file system.

    Raises `LabError`, `ImageError`.
    """
    from bridgehead.images import archives

    found = []
    for path, source, is_root in sources:
        try:
            found += [archives.load_root(store, source, tag)] if is_root else archives.load(store, source, tag)
        except BadImage as error:
            raise LabError(f"{path}: {error}") from error
    return found


@contextlib.contextmanager
def open_source(path: Path, tag: str) -> Iterator[tuple[BinaryIO, bool]]:
    """Yield an archive of images, or of a root file system and True. The lab's ids may not read the user's files."""
    if not path.is_dir():
        with open(path, "rb") as file, tempfile.TemporaryFile() as copy:
            if file.seekable():
                yield file, False
            else:  # a pipe, as from `docker save`
                shutil.copyfileobj(file, copy)
                copy.seek(0)
                yield cast(BinaryIO, copy), False
        return
    is_root = not is_layout(path)
    if is_root and not tag:
        raise LabError(f"{path} is no OCI layout; name the image of this root file system with --tag")
    with tempfile.TemporaryFile() as copy:
        with tarfile.open(fileobj=copy, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.add(path, ".")
        copy.seek(0)
        yield cast(BinaryIO, copy), is_root


def is_layout(path: Path) -> bool:
    """Return whether a directory is an OCI layout."""
    from bridgehead.images import archives

    return (path / archives.LAYOUT).exists()
