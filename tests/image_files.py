"""Images for tests, made of tar files in this process: layers, manifests, and pushes to a registry."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import tarfile
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bridgehead import architecture
from bridgehead.images import manifests
from bridgehead.images.manifests import digest_of

# An entry of an archive: the content of a file, None for a directory, or TarInfo's attributes (`data` is the content).
Entry = str | bytes | dict[str, Any] | None


class Blob(NamedTuple):
    """Content with the descriptor that a manifest has for it. `diff_id` is a layer's."""

    content: bytes
    media_type: str
    diff_id: str = ""

    @property
    def digest(self) -> str:
        return digest_of(self.content)

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content)}


class BuiltImage(NamedTuple):
    """A manifest and the blobs that it names, the configuration first."""

    manifest: Blob
    blobs: tuple[Blob, ...]


def tar_of(entries: Iterable[tuple[str, Entry]], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for path, what in entries:
            add_entry(archive, path, what)
    return file.getvalue()


def add_entry(archive: tarfile.TarFile, path: str, what: Entry) -> None:
    """Add an entry to an archive that is being written."""
    member = tarfile.TarInfo(path)
    fields = what if isinstance(what, dict) else {"data": what} if what is not None else {"type": tarfile.DIRTYPE}
    data = fields.get("data", b"")
    data = data.encode() if isinstance(data, str) else data
    member.mode = 0o755
    member.mtime = 1_700_000_000
    member.size = len(data)
    for name, value in fields.items():
        if name != "data":
            setattr(member, name, value)
    archive.addfile(member, io.BytesIO(data))


def layer_of(entries: Iterable[tuple[str, Entry]], compression: str = "gzip") -> Blob:
    content = tar_of(entries)
    return compress(content, compression)


def entries_of_program(program: Path, path: str) -> Iterator[tuple[str, Entry]]:
    """The entries of a layer with a program, which has its owner's rights, and the libraries that it is linked with."""
    linked = subprocess.run(("ldd", program), capture_output=True, text=True, check=False).stdout  # none: it is static
    yield path.lstrip("/"), {"data": program.read_bytes(), "mode": 0o4755}
    for library in linked.split():
        if library.startswith("/"):
            yield library.lstrip("/"), Path(library).read_bytes()


def compress(content: bytes, compression: str) -> Blob:
    media_type = manifests.OCI_LAYER
    diff_id = digest_of(content)
    if compression == "gzip":
        return Blob(gzip.compress(content, mtime=0), f"{media_type}+gzip", diff_id)
    if compression == "zstd":
        from bridgehead.images.store.zstd_library import zstd

        return Blob(zstd.compress(content), f"{media_type}+zstd", diff_id)
    return Blob(content, media_type, diff_id)


def image_of(*layers: Blob, arch: str = "", **config: Any) -> BuiltImage:
    """An image of these layers; `config` has the names of `docker inspect` (Cmd, Env, ...)."""
    document = {
        "architecture": arch or architecture(),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
    }
    blob = Blob(json.dumps(document).encode(), manifests.OCI_CONFIG)
    manifest = {
        "schemaVersion": 2,
        "mediaType": manifests.OCI_MANIFEST,
        "config": blob.descriptor,
        "layers": [layer.descriptor for layer in layers],
    }
    return BuiltImage(Blob(json.dumps(manifest).encode(), manifests.OCI_MANIFEST), (blob, *layers))


def image_in_layout(layout: Path, tag: str) -> BuiltImage:
    """The image with this tag in an OCI image layout."""

    def read(descriptor: dict[str, Any]) -> Blob:
        content = (layout / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
        return Blob(content, descriptor["mediaType"])

    index = json.loads((layout / "index.json").read_bytes())
    [found] = [each for each in index["manifests"] if each["annotations"]["org.opencontainers.image.ref.name"] == tag]
    manifest = read(found)
    document = json.loads(manifest.content)
    return BuiltImage(manifest, tuple(read(each) for each in (document["config"], *document["layers"])))


def index_of(images: dict[str, BuiltImage]) -> Blob:
    """An index with one manifest for each architecture."""
    entries = [
        {**image.manifest.descriptor, "platform": {"architecture": arch, "os": "linux"}}
        for arch, image in images.items()
    ]
    document = {"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": entries}
    return Blob(json.dumps(document).encode(), manifests.OCI_INDEX)


def push(server: str, repository: str, tag: str, image: BuiltImage, authorization: str = "") -> None:
    """Push to the registry at the URL `server`, as OCI distribution describes it."""
    headers = {"Authorization": authorization} if authorization else {}
    for blob in image.blobs:
        started = _send("POST", f"{server}/v2/{repository}/blobs/uploads/", headers)
        location = urllib.parse.urljoin(server, started.headers["Location"])
        joint = "&" if "?" in location else "?"
        content_type = {"Content-Type": "application/octet-stream"}
        _send("PUT", f"{location}{joint}digest={blob.digest}", {**headers, **content_type}, blob.content)
    push_manifest(server, repository, tag, image.manifest, authorization)


def push_manifest(server: str, repository: str, tag: str, manifest: Blob, authorization: str = "") -> None:
    headers = {"Authorization": authorization} if authorization else {}
    url = f"{server}/v2/{repository}/manifests/{tag}"
    _send("PUT", url, {**headers, "Content-Type": manifest.media_type}, manifest.content)


def _send(method: str, url: str, headers: dict[str, str], data: bytes | None = None) -> Any:
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
        response.read()
        return response


def archive_of(name: str, image: BuiltImage) -> bytes:
    """An OCI archive with one image."""
    manifest = {**image.manifest.descriptor, "annotations": {"io.containerd.image.name": name}}
    index = {"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": [manifest]}
    blobs = [(f"blobs/{blob.digest.replace(':', '/')}", blob.content) for blob in (image.manifest, *image.blobs)]
    return tar_of([("oci-layout", '{"imageLayoutVersion": "1.0.0"}'), ("index.json", json.dumps(index)), *blobs])


def busybox_entries(*applets: str) -> list[tuple[str, Entry]]:
    """Entries of a layer with the host's busybox, the libraries that it needs, and links for applets."""
    program = shutil.which("busybox")
    assert program is not None
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, timeout=60).stdout
    libraries = [word for word in listed.split() if word.startswith("/")]
    entries: list[tuple[str, Entry]] = [("bin/busybox", Path(program).read_bytes())]
    entries += [(path.lstrip("/"), Path(path).read_bytes()) for path in libraries]
    return entries + [(f"bin/{applet}", {"type": tarfile.SYMTYPE, "linkname": "busybox"}) for applet in applets]
