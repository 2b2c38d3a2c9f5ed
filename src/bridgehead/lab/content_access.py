"""Access to a lab's content store from the machine, with the ids that the lab's files have."""

from __future__ import annotations

import os
from pathlib import Path

from bridgehead.images.store.content import ContentStore

from . import roots, state_directories, user_namespace
from .errors import LabError
from .plan import LabFiles


def open_content(files: LabFiles) -> ContentStore:
    """Change this process to the lab's ids and to the store's directory, for good; returns the store.

    Files that need the user's own rights have to be opened before. The caller must have no other threads. Raises
    `LabError`.
    """
    config = state_directories.read_config(files)
    if config is None:
        raise state_directories.no_such_lab(files)
    try:
        id_map = None
        if not (config.host_access and user_namespace.is_full_root()):
            id_map, id_base = user_namespace.choose_id_map(str(files.root), config.id_base)
            owner = id_map.root if id_base is not None else None
            if not files.content.exists():  # of a lab that last ran before there were content stores
                roots.make_state_directories(files, owner)
        os.chdir(files.content)
        if id_map is not None:
            user_namespace.enter(user_namespace.make(id_map))
    except OSError as error:
        raise LabError(f"cannot use {files.content}: {error.strerror}") from error
    return ContentStore(Path())
