"""Short hash of a pod template, for the labels `pod-template-hash` and `controller-revision-hash`.

Called by the Deployment and DaemonSet controllers. Kubernetes hashes a dump of its Go structs, so values differ from
its own. The algorithm is the same: 32-bit FNV-1a with the collision count, in decimal digits that are encoded in an
alphabet without vowels and similar characters (`k8s.io/apimachinery/pkg/util/rand.SafeEncodeString`).
Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import msgspec

from bridgehead.objects.meta import PodTemplate

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193


def fnv1a_32(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash of `data`."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


def safe_encode(text: str) -> str:
    """Return `text` with every character replaced by a consonant or a digit, so that no word results."""
    return "".join(_ALPHABET[ord(character) % len(_ALPHABET)] for character in text)


def template_hash(template: PodTemplate, collision_count: int | None = None) -> str:
    """Return a hash of one to ten characters. Equal templates have equal hashes, in any order of their keys.

    `collision_count` is None until two different templates had the same hash; each further value gives another hash.
    """
    data = msgspec.json.encode(template, order="deterministic")
    if collision_count is not None:
        data += collision_count.to_bytes(8, "little")
    return safe_encode(str(fnv1a_32(data)))
