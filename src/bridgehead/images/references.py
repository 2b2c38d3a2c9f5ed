"""Image references: `[registry/]path[:tag][@digest]` in Docker's normal form.

Pure: no I/O, no clock, no randomness. Source: distribution/reference.
"""

from __future__ import annotations

import re

import msgspec

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REGISTRY = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?:(?P<registry>{_REGISTRY})/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
_IMAGE_ID = re.compile(r"[0-9a-f]{64}")  # of Docker, which is not a name
_MAX_PATH = 255  # characters


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed reference: `nginx` is registry `docker.io`, path `library/nginx`, tag `latest`.

    With a digest and no tag in the name, `tag` is "".
    """

    registry: str
    path: str
    tag: str
    digest: str

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry}/{self.path}{tag}{digest}"

    @property
    def repository(self) -> str:
        """Registry and path: `docker.io/library/nginx`."""
        return f"{self.registry}/{self.path}"

    @property
    def host(self) -> str:
        """The registry without its port."""
        return re.sub(r":\d+$", "", self.registry)

    @property
    def key(self) -> str:
        """The name under which a content store has the image. A digest outweighs a tag, as in containerd."""
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"

    @property
    def target(self) -> str:
        """The name of the manifest in its repository: the digest, else the tag."""
        return self.digest or self.tag

    def has_path(self, suffix: str) -> bool:
        """Whether the path ends in these components, after any registry or mirror's prefix."""
        return self.path == suffix or self.path.endswith("/" + suffix)


def parse_reference(name: str) -> Reference | None:
    """Parse a reference; None if it is invalid (the kubelet then reports InvalidImageName)."""
    head, slash, tail = name.partition("/")
    registry, rest = "docker.io", name
    if slash and ("." in head or ":" in head or head == "localhost" or head.lower() != head):
        registry, rest = head, tail
    match = _REFERENCE.fullmatch(f"{registry}/{rest}")
    # The pattern may take a first component without a dot for a registry; only the one found above is valid.
    if match is None or match["registry"] != registry:
        return None
    path = match["path"]
    if registry in ("docker.io", "index.docker.io"):
        registry = "docker.io"
        if "/" not in path:
            path = f"library/{path}"
    digest = match["digest"] or ""
    if len(path) > _MAX_PATH or _IMAGE_ID.fullmatch(name) or (digest and not _DIGEST.fullmatch(digest)):
        return None
    tag = match["tag"] or ("" if digest else "latest")
    return Reference(registry=registry, path=path, tag=tag, digest=digest)
