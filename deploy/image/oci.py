"""An image as the OCI image specification describes it: layers, configuration, manifest, and an archive of them.

Source: https://github.com/opencontainers/image-spec, image-layout.md, config.md, manifest.md.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from bridgehead.images import manifests
from bridgehead.images.manifests import digest_of

from .trees import Tree

_LEVEL = 6  # 9 takes three times as long for one percent


class Layer:
    """A layer, compressed. `diff_id` is the digest of the archive, `digest` that of what is stored."""

    def __init__(self, archive: bytes) -> None:
        self.diff_id = digest_of(archive)
        self.content = gzip.compress(archive, _LEVEL, mtime=0)
        self.digest = digest_of(self.content)


def compress(archives: Sequence[bytes]) -> list[Layer]:
    """Compress layers, on several processors."""
    with ThreadPoolExecutor() as threads:
        return list(threads.map(Layer, archives))


def write_archive(target: IO[bytes], name: str, layers: Sequence[Layer], document: Mapping[str, Any]) -> str:
    """Write an OCI archive with one image; returns the image's digest.

    `document` is the image's configuration without its layers; `name` that under which the image is loaded.
    """
    config = _json({**document, "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]}})
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": manifests.OCI_MANIFEST,
            "config": _descriptor(manifests.OCI_CONFIG, config),
            "layers": [_descriptor(f"{manifests.OCI_LAYER}+gzip", layer.content) for layer in layers],
        }
    )
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    index = {
        "schemaVersion": 2,
        "mediaType": manifests.OCI_INDEX,
        "manifests": [{**_descriptor(manifests.OCI_MANIFEST, manifest), "annotations": names}],
    }
    tree = Tree()
    tree.add_file("oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
    tree.add_file("index.json", _json(index))
    for blob in (manifest, config, *(layer.content for layer in layers)):
        tree.add_file(f"blobs/{digest_of(blob).replace(':', '/')}", blob)
    tree.write(target)
    return digest_of(manifest)


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
