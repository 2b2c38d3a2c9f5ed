"""The user and groups of a container, by the container's own /etc/passwd and /etc/group.

Pure: no I/O, no clock, no randomness. Source: containerd's `WithUser` and `WithAdditionalGIDs`; passwd(5), group(5).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes.runtime import Security
from bridgehead.objects.core import LinuxContainerUser

# runc's bounds. setresuid(2) takes 4294967295 for "unchanged", which would be root.
_MAX_ID: Final = (1 << 31) - 1
_MAX_DIGITS: Final = 10


class UnknownUser(Exception):
    """The image names a user that its files do not have, or an id that is out of range."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of a container's user. `groups` are supplementary; `home` is "" if /etc/passwd does not have the user."""

    user: int
    group: int
    groups: tuple[int, ...] = ()
    home: str = ""


def find_account(security: Security, image_user: str, passwd: str, group: str) -> Account:
    """`image_user` is USER or USER:GROUP, names or numbers; `passwd` and `group` are the contents of the two files.

    The image's group has no effect: kubelets leave it out when they ask the runtime for a container (`getImageUser`).
    Raises `UnknownUser`.
    """
    named_user = image_user.partition(":")[0] if security.user is None else str(security.user)
    entries = list(_entries(passwd, 6))
    known = next((fields for fields in entries if named_user in (fields[0], fields[2])), None)
    if not named_user:
        known = next((fields for fields in entries if fields[2] == "0"), None)
    if known is None and named_user and not _is_number(named_user):
        raise UnknownUser(f"unable to find user {named_user}: no matching entries in passwd file")
    user = int(known[2]) if known else int(named_user or 0)
    main = int(known[3]) if known else 0
    if security.group is not None:
        main = security.group
    name = known[0] if known else ""
    listed = [
        int(fields[2])
        for fields in _entries(group, 4)
        if name and name in fields[3].split(",") and not security.strict_groups
    ]
    groups = tuple(dict.fromkeys([*listed, *security.supplemental_groups]))
    if max(user, main, *groups) > _MAX_ID:
        raise UnknownUser(f"uids and gids must be in range 0-{_MAX_ID}")
    return Account(user=user, group=main, groups=groups, home=known[5] if known else "")


def shown(account: Account) -> LinuxContainerUser:
    """Return what the container's status shows: the groups with the main one, first, as containerd reports them."""
    groups = tuple(dict.fromkeys((account.group, *account.groups)))
    return LinuxContainerUser(uid=account.user, gid=account.group, supplemental_groups=groups)


def _entries(text: str, min_fields: int) -> Iterator[list[str]]:
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) >= min_fields and _is_number(fields[2]) and (min_fields < 6 or _is_number(fields[3])):
            yield fields


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MAX_DIGITS
