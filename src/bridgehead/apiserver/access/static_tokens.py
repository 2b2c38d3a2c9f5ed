"""The file of static tokens: Kubernetes' CSV with the columns token, user, uid and "group1,group2".

Source: Kubernetes "Authenticating", static token file.
"""

from __future__ import annotations

import csv
from pathlib import Path

from bridgehead.apiserver.http.user import AUTHENTICATED, User


def read_token_file(path: Path) -> dict[str, User]:
    """Return users by token. Raises OSError, and ValueError with the line for a malformed file."""
    users: dict[str, User] = {}
    with path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if not row or row[0].lstrip().startswith("#"):
                continue
            if len(row) < 3 or not row[0]:
                raise ValueError(f"{path}: line {number}: expected at least 3 columns: token, user name, user uid")
            groups = tuple(group.strip() for group in row[3].split(",") if group.strip()) if len(row) > 3 else ()
            users[row[0]] = User(row[1], (*groups, AUTHENTICATED), row[2])
    return users
