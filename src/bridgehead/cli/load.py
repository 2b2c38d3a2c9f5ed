"""Load the image that was just built into a cluster, and show which workloads use it.

SOURCE is an archive of `docker save`, an OCI archive or a directory with an OCI layout; with --tag a directory with a
root file system; or the name of an image in the storage of Docker, Podman or Buildah, which is found by itself. A pod
names the image as it was named here, or with --tag. No registry is needed.

Docs: docs/images.md.

Examples:

    docker build -t shop/api:1 . && bridgehead load shop/api:1 --restart
    bridgehead load build/image.tar
    bridgehead load build/rootfs --tag shop/api:1
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Literal

import msgspec
import typer

from bridgehead.images.errors import ImageError
from bridgehead.images.store.content import ContentStore
from bridgehead.lab import state_directories
from bridgehead.lab.errors import LabError, NotRunning
from bridgehead.lab.plan import LabFiles

from .exit_codes import reporting_failures
from .lab_options import Name, StateDir, find_lab, reporting_errors
from .store_access import do_in_child, is_layout, load_sources, open_source

if TYPE_CHECKING:
    from bridgehead.client import ApiClient
    from bridgehead.insight.image_users import ImageUser
    from bridgehead.objects.kinds import Kind

_MOST_SHOWN: Final = 20
_ID: Final = re.compile("[0-9a-f]{12,64}")  # `docker image ls` prints 12 digits


class Loaded(msgspec.Struct, frozen=True):
    """An image in the lab's store; `key` is its full name there."""

    key: str
    size: int


def command(
    source: Annotated[str, typer.Argument(metavar="SOURCE", show_default=False, help="A path, or an image's name.")],
    tag: Annotated[str, typer.Option("--tag", "-t", help="Name that the image gets.")] = "",
    engine: Annotated[
        Literal["docker", "podman", "buildah"] | None,
        typer.Option(
            "--from", show_default=False, help="Storage to take a named image from. Default: the one with it."
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Restart the workloads that use the image, as `kubectl rollout restart`.")
    ] = False,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    from bridgehead.client.errors import ClientError

    with reporting_errors(), reporting_failures("load", ClientError):
        load(find_lab(name, state_dir), source, tag, engine, is_restarting=restart)


def load(files: LabFiles, source: str, tag: str = "", engine: str | None = None, *, is_restarting: bool) -> None:
    """Load what `source` names, and print what was done and what uses it. Raises `LabError`, ClientError."""
    try:
        loaded, origin = _load(files, source, tag, engine)
    except ImageError as error:
        raise LabError(str(error)) from error
    for image in loaded:
        sys.stdout.write(f"loaded {image.key} ({image.size / 1e6:.1f} MB) from {origin}\n")
    sys.stdout.flush()
    try:
        context = state_directories.read_running(files).config.context
    except NotRunning:
        sys.stdout.write("the lab is stopped; its next `bridgehead up` has the image\n")
        return
    asyncio.run(_show_users(files, context, [image.key for image in loaded], is_restarting))


def _load(files: LabFiles, source: str, tag: str, engine: str | None) -> tuple[list[Loaded], str]:
    """Load what `source` names. Return the images, and a text for their origin. Raises `LabError`, `ImageError`."""
    with _opened(source, tag, engine) as (path, file, is_root, name, origin):

        def work(store: ContentStore) -> str:
            records = load_sources(store, [(path, file, is_root)], name)
            return msgspec.json.encode([Loaded(record.name, record.size) for record in records]).decode()

        return msgspec.json.decode(do_in_child(files, work), type=list[Loaded]), origin


@contextlib.contextmanager
def _opened(source: str, tag: str, engine: str | None) -> Iterator[tuple[Path, BinaryIO, bool, str, str]]:
    """Yield a path for errors, the archive, whether it is a root file system, the image's name ("": the archive has
    it), and a text for its origin."""
    path = Path(source)
    if engine is None and (path.is_file() or path.is_fifo() or (path.is_dir() and (tag or is_layout(path)))):
        with open_source(path, tag) as (file, is_root):
            yield path, file, is_root, tag, str(path)
        return
    from bridgehead.images import container_engines
    from bridgehead.images.references import parse_reference

    if parse_reference(tag or source) is None:
        raise LabError(f"{source!r} is neither a file nor a name of an image" if not tag else f"no name: --tag {tag!r}")
    try:
        found, identity = container_engines.find_engine(
            source, [each for each in container_engines.ENGINES if engine in (None, each.name)]
        )
    except container_engines.NoSuchImage as error:
        if not path.is_dir():
            raise
        raise LabError(
            f"{source} is a directory without an OCI layout: --tag NAME loads it as a root file system, and"
            f" `bridgehead image build -t NAME {source}` builds its Dockerfile; and there is {error}"
        ) from None
    if not tag and is_id_of(source, identity):
        raise LabError(f"{source} is the id of an image, which pods cannot name: give it a name with --tag")
    with tempfile.TemporaryDirectory(prefix="bridgehead-load-") as directory:
        archive = Path(directory) / "image.tar"
        container_engines.save(found, source, archive)
        with open(archive, "rb") as file:
            yield Path(source), file, False, tag or source, f"{found.name}'s storage"


def is_id_of(source: str, identity: str) -> bool:
    """Return whether the user named an image by its id, or by the beginning that engines print, not by its name.

    Names such as `db` or `fe` can begin an id by chance.
    """
    digits = source.removeprefix("sha256:")
    return _ID.fullmatch(digits) is not None and identity.startswith(digits)


async def _show_users(files: LabFiles, context: str, images: Sequence[str], is_restarting: bool) -> None:
    """Print the workloads that use the images and the command that restarts them, or restart them."""
    from bridgehead.client import ApiClient, load_kubeconfig
    from bridgehead.insight.image_users import find_users

    async with ApiClient(load_kubeconfig(files.kubeconfig, context), "bridgehead-load") as client:
        workloads: list[tuple[str, Any, Any]] = []
        for resource, kind in _kinds().items():
            workloads += [(resource, each.metadata, each.spec.template) for each in (await client.list(kind)).items]
        users = find_users(workloads, images)
        for user in users:
            if is_restarting:
                await _restart(client, _kinds()[user.resource], user)
        sys.stdout.write(render_users(users, images, is_restarting=is_restarting))


def render_users(users: Sequence[ImageUser], images: Sequence[str], *, is_restarting: bool) -> str:
    """Return a line for each workload that uses one of the images."""
    if not users:
        create = f"kubectl create deployment NAME --image={images[0]}"
        return f"no Deployment, StatefulSet or DaemonSet uses it yet; next: {create}\n"
    verb = "restarted {0.resource}/{0.name} of {0.namespace}" if is_restarting else "next: {0.restart}"
    lines = [verb.format(user) for user in users[:_MOST_SHOWN]]
    if len(users) > _MOST_SHOWN:
        lines.append(f"and {len(users) - _MOST_SHOWN} more")
    if not is_restarting:
        lines.append("--restart does it")
    asking = [f"{user.resource}/{user.name} of {user.namespace}" for user in users if user.always_pulls]
    if asking:
        lines.append(
            f"imagePullPolicy Always of {asking[0]} asks the registry first, whose image counts if it answers;"
            " IfNotPresent uses the loaded one"
        )
    return "".join(f"{line}\n" for line in lines)


def _kinds() -> dict[str, Kind[Any]]:
    from bridgehead.objects.kinds import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS

    return {"deployment": DEPLOYMENTS, "statefulset": STATEFUL_SETS, "daemonset": DAEMON_SETS}


async def _restart(client: ApiClient, kind: Kind[Any], user: ImageUser) -> None:
    from bridgehead.client.errors import NotFound
    from bridgehead.client.rollout_restart import restart

    with contextlib.suppress(NotFound):  # deleted meanwhile
        await restart(client, kind, user.name, user.namespace)
