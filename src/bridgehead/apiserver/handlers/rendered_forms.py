"""Objects in forms other than the stored one, kept while several clients may want them.

All watches and lists of a resource that ask for the same form share the bytes, as those of the stored form do.
"""

from __future__ import annotations

from collections.abc import Callable

MAX_BYTES = 16 * 1024 * 1024


class Rendered:
    """The newest rendered objects, at most `max_bytes` of them."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._bodies: dict[tuple[str, int], bytes] = {}

    def get(self, form: str, revision: int, make: Callable[[], bytes]) -> bytes:
        """Return the bytes of the object that was written at `revision`, in a form; `make` renders them.

        `form` also names the resource where its kind matters.
        """
        key = (form, revision)
        body = self._bodies.get(key)
        if body is None:
            body = make()
            if len(body) <= self._max_bytes:
                self._keep(key, body)
        return body

    def _keep(self, key: tuple[str, int], body: bytes) -> None:
        self._bodies[key] = body
        self._size += len(body)
        while self._size > self._max_bytes:
            self._size -= len(self._bodies.pop(next(iter(self._bodies))))
