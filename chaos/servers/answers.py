"""The meaning of an HTTP answer for a write: done, refused for a reason of the model, not carried out, or unknown.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .models import Outcome

Body = Mapping[str, Any]

_NOT_DONE = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Body

    @property
    def is_not_done(self) -> bool:
        """Whether the server did not carry the request out, so that it can be sent again."""
        return self.status in _NOT_DONE

    @property
    def is_open(self) -> bool:
        """Whether the server does not know if it carried the request out."""
        return self.status >= 500 and not self.is_not_done

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def is_over_quota(self) -> bool:
        return self.status == 403 and "exceeded quota" in self.message

    def outcome(self) -> Outcome | None:
        """Return the outcome of a write; None: unknown. Raises ValueError for an answer that no write should get."""
        if self.is_open:
            return None
        match self.status, self.body.get("reason"):
            case ((200 | 201 | 202), _):
                return Outcome.DONE
            case 404, _:
                return Outcome.MISSING
            case 409, "AlreadyExists":
                return Outcome.EXISTS
            case 409, _:
                return Outcome.CONFLICT
            case 422, _ if "already allocated" in self.message:
                return Outcome.TAKEN
        raise ValueError(f"{self.status} {self.message}")

    def refused_fields(self) -> frozenset[str]:
        """Return the fields that a 422 names."""
        causes = self.body.get("details", {}).get("causes", ())
        return frozenset(cause.get("field", "") for cause in causes)


def state_of(obj: Body) -> str:
    """Return the text of the write that made an object so."""
    return str(obj["metadata"].get("annotations", {}).get("state", ""))


def revision_of(obj: Body) -> int:
    return int(obj["metadata"]["resourceVersion"])
