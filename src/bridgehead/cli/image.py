"""Show and change the images of a cluster: ACTION is list, pull, load, save, remove or build.

`pull` takes names of images, and uses this machine's network and Docker's credentials. `load` takes archives of
`docker save`, OCI archives, and directories: OCI layouts, and with --tag root file systems. `save` writes the named
images to one archive. `remove` takes names; layers that a container uses stay until it has ended. `build` takes a
directory with a Dockerfile, and needs buildah.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from bridgehead.images.errors import ImageError
from bridgehead.images.references import Reference, parse_reference
from bridgehead.images.store.content import ContentStore
from bridgehead.lab import state_directories
from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabFiles

from .exit_codes import fail
from .lab_options import Name, StateDir, find_lab, reporting_errors
from .store_access import do_in_child, load_sources, open_source
from .tables import columns

_NEEDED: Final = {"load": "a file", "build": "a directory with a Dockerfile"}
Action = Literal["list", "pull", "load", "save", "remove", "build"]


def command(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="list, pull, load, save, remove or build.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Names of images; for `load` files and directories.")
    ] = None,
    tag: Annotated[
        str, typer.Option("--tag", "-t", help="For `build` the image's name, for `load` that of a file with one image.")
    ] = "",
    file: Annotated[str, typer.Option("--file", "-f", help="For `build`: the Dockerfile.")] = "",
    build_arg: Annotated[
        list[str] | None, typer.Option("--build-arg", help="For `build`: NAME=VALUE of an ARG. Repeatable.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="For `save`: the file to write.")] = "",
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    given = names or []
    if wrong := _find_mistake(action, given, tag, output):
        fail("image", wrong, 2)
    with reporting_errors():
        files = find_lab(name, state_dir)
        try:
            match action:
                case "list":
                    _list(files)
                case "pull":
                    _pull(files, [_parse(each) for each in given])
                case "load":
                    _load(files, given, tag)
                case "save":
                    _save(files, given, output)
                case "remove":
                    _remove(files, [_parse(each) for each in given])
                case "build":
                    _build(files, Path(given[0]), tag, file, build_arg or [])
        except ImageError as error:
            raise LabError(str(error)) from error
        except OSError as error:
            raise LabError(f"{error.filename or 'the image store'}: {error.strerror}") from error


def _find_mistake(action: Action, given: list[str], tag: str, output: str) -> str:
    """Return what is wrong with the command line, "" if nothing is."""
    if action == "list":
        return "`list` takes no names" if given else ""
    if not given:
        return f"`{action}` needs {_NEEDED.get(action, 'the name of an image')}"
    if action == "save" and not output:
        return "`save` needs --output FILE"
    if action == "build" and not tag:
        return "`build` needs the image's name: --tag NAME"
    if action == "build" and len(given) > 1:
        return "`build` takes one directory"
    return ""


def _open(files: LabFiles) -> ContentStore:
    from bridgehead.lab.content_access import open_content

    return open_content(files)


def _parse(name: str) -> Reference:
    reference = parse_reference(name)
    if reference is None:
        raise LabError(f'couldn\'t parse image name "{name}": invalid reference format')
    return reference


def _list(files: LabFiles) -> None:
    rows = [("IMAGE", "IMAGE ID", "SIZE")]
    rows += [
        (record.name, (record.digest or record.config)[:19], f"{record.size / 1e6:.1f}MB")
        for record in _open(files).records()
    ]
    sys.stdout.write(columns(rows))


def _pull(files: LabFiles, references: list[Reference]) -> None:
    from bridgehead.images.service import process, puller_config, user_process
    from bridgehead.images.service.shared_blobs import SharedBlobs
    from bridgehead.images.service.user_client import UserClient

    # Before the change of ids: Docker's configuration is the user's.
    config = puller_config.read_config(files.registries, {reference.registry for reference in references})
    blobs = state_directories.find_shared_blobs(files)
    requests, user = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def pull(store: ContentStore) -> None:
        requests.close()
        shared = SharedBlobs(UserClient(user), store) if blobs is not None else None
        asyncio.run(process.pull_all(config, store, references, _report, shared))

    def attend(child: int) -> int:
        user.close()
        if not files.content.is_dir():  # of a lab that last ran before there were content stores: the child makes it
            return _wait(child)
        os.chdir(files.content)
        return user_process.serve(user_process.UserFiles(files.registries, blobs), requests, child)

    do_in_child(files, pull, attend)


def _report(text: str, *, is_final: bool) -> None:
    """Print the progress of a pull to a terminal, and its end."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}" + ("\n" if is_final else ""))
        sys.stderr.flush()
    elif is_final:
        sys.stderr.write(f"{text}\n")


def _load(files: LabFiles, paths: list[str], tag: str) -> None:
    with contextlib.ExitStack() as opened:
        sources = [(Path(path), *opened.enter_context(open_source(Path(path), tag))) for path in paths]
        for record in load_sources(_open(files), sources, tag):
            sys.stdout.write(f"{record.name}\n")


def _save(files: LabFiles, names: list[str], output: str) -> None:
    from bridgehead.images import archives

    path = Path(output)
    is_new = not path.exists()
    # The file may be an earlier archive, which stays unless all images are there.
    with open(path, "ab") as file:

        def write(store: ContentStore) -> None:
            _refuse([name for name in names if store.find(_parse(name).key) is None])
            if os.fstat(file.fileno()).st_size:
                file.truncate(0)
            archives.save(store, names, file)
            file.flush()

        try:
            do_in_child(files, write)
        except LabError:
            if is_new:
                path.unlink(missing_ok=True)
            raise


def _remove(files: LabFiles, references: list[Reference]) -> None:
    from bridgehead.images.store import garbage_collection

    store = _open(files)
    missing = [str(reference) for reference in references if not store.remove_record(reference.key)]
    garbage_collection.collect(store)
    _refuse(missing)


def _build(files: LabFiles, directory: Path, tag: str, file: str, arguments: list[str]) -> None:
    from bridgehead.images import archives, building

    building.find_buildah()
    _parse(tag)
    dockerfile = building.find_file(directory, file)
    with contextlib.ExitStack() as opened:
        with tempfile.TemporaryDirectory(prefix="bridgehead-build-") as temporary:
            bases, archive = Path(temporary) / "bases.tar", Path(temporary) / "image.tar"
            wanted = building.named_images(dockerfile.read_text("utf-8", "replace"), arguments)
            _save_bases(files, wanted, bases)
            building.build(directory, dockerfile, arguments, bases, archive)
            built = opened.enter_context(open(archive, "rb"))
        for record in archives.load(_open(files), built, tag):
            sys.stdout.write(f"{record.name}\n")


def _save_bases(files: LabFiles, references: list[Reference], path: Path) -> None:
    """Write those of the images that the store has to an archive, an empty file without any. Raises `LabError`."""
    from bridgehead.images import archives

    with open(path, "wb") as file:

        def write(store: ContentStore) -> None:
            if names := [str(each) for each in references if store.find(each.key) is not None]:
                archives.save(store, names, file)
                file.flush()

        do_in_child(files, write)


def _wait(child: int) -> int:
    return os.waitpid(child, 0)[1]


def _refuse(missing: list[str]) -> None:
    if missing:
        raise LabError(f"no such image: {', '.join(missing)}")
