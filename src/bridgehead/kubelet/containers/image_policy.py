"""Decisions about a container's image: whether to pull it, with which credentials, and the texts of Events.

Pure: no I/O, no clock, no randomness. Source: the kubelet's image manager (`EnsureImageExists`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Iterable
from typing import Final

from bridgehead.images.errors import Denied, ImageError, NotFound, Unreachable
from bridgehead.images.references import Reference
from bridgehead.images.registry.docker_config import (
    BadCredentials,
    Credential,
    find_credentials,
    fingerprint,
    parse_docker_config,
)
from bridgehead.objects.core import Pod, Secret

# The types of Secrets: the key of the configuration, and whether it is of the legacy form.
_FORMS: Final = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson", False),
    "kubernetes.io/dockercfg": (".dockercfg", True),
}


def is_pull_wanted(policy: str, source: str, *, is_allowed: bool = True) -> bool:
    """Whether an image is to be pulled. `source` is that of the image as the node has it now, "" for none.

    Images that the user unpacked and Bridgehead's own parts are in no registry. A stand-in is no image: a real one is
    better. An image that the pod `is_allowed` to use only if the registry grants that is pulled again.
    """
    if source in ("store", "part"):
        return False
    return policy == "Always" if source == "registry" and is_allowed else policy != "Never"


def is_allowed(restricted_to: Collection[str], credentials: Iterable[Credential]) -> bool:
    """Whether a pod with these credentials may use an image that is there (see `ImageRecord.restricted_to`).

    The policy is NeverVerifyPreloadedImages of KubeletConfiguration's `imagePullCredentialsVerificationPolicy`.
    """
    return not restricted_to or any(fingerprint(each) in restricted_to for each in credentials)


def pull_credentials(
    pod: Pod, reference: Reference, secret: Callable[[str], Secret | None]
) -> tuple[list[Credential], list[str]]:
    """Return the credentials in the pod's imagePullSecrets for an image, and the names of those that are unusable."""
    keyrings, unusable = [], []
    for name in dict.fromkeys(each.name for each in pod.spec.image_pull_secrets if each.name):
        found = secret(name)
        key, is_legacy = _FORMS.get(found.type if found is not None else "", ("", False))
        if found is None:
            unusable.append(name)
        elif key in found.data:
            try:
                keyrings.append(parse_docker_config(base64.b64decode(found.data[key]), is_legacy=is_legacy))
            except (BadCredentials, binascii.Error):
                unusable.append(name)
    return find_credentials(keyrings, reference), unusable


def describe_failure(error: ImageError) -> str:
    """Return the failure of a pull as kubelets get it from containerd."""
    code = "NotFound" if isinstance(error, NotFound) else "Unknown"
    return f"rpc error: code = {code} desc = {error}"


def advise(error: ImageError | None) -> str:
    """Return what its user can do first for an image that was not pulled, in at most 200 characters.

    None: the node has no image of this name, and nothing pulls images. The Event has the reasons.
    """
    load = "load it with `bridgehead image load FILE`"
    match error:
        case None | Unreachable():
            where = "not on this node" if error is None else "not on this node, and its registry cannot be reached"
            return f"{where}: {load}, or use an image that has a stand-in (the Event has the reason and the stand-ins)"
        case NotFound():
            return f"its registry has no such image: correct the name or the tag, or {load} (the Event has the reason)"
        case Denied():
            return (
                "its registry has no such image or does not allow it: correct the name, or the Secrets in "
                "imagePullSecrets (the Event has the reason)"
            )
    return f"it could not be pulled: {load}, or try another tag (the Event has the reason)"


def describe_pull(image: str, seconds: float, waiting_seconds: float, size: int) -> str:
    return (
        f'Successfully pulled image "{image}" in {_format_seconds(seconds)}'
        f" ({_format_seconds(waiting_seconds)} including waiting). Image size: {size} bytes."
    )


def describe_unusable(names: Iterable[str]) -> str:
    joined = ", ".join(sorted(names))
    return f"Unable to retrieve some image pull secrets ({joined}); attempting to pull the image may not succeed."


def _format_seconds(seconds: float) -> str:
    """Format as Go prints a duration that is truncated to milliseconds: `215ms`, `1.204s`, `2m3.5s`."""
    millis = int(seconds * 1000)
    if millis < 1000:
        return f"{millis}ms"
    minutes, rest = divmod(millis, 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    return f"{minutes}m{text}s" if minutes else f"{text}s"
