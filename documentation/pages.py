"""The pages that are made of the code, by their files in the repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import commands, compatibility, corefile, environment, events, metrics, object_names, state_files

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/compatibility.md": compatibility.render_page,
    "docs/reference/commands.md": commands.render_page,
    "docs/reference/corefile.md": corefile.render_page,
    "docs/reference/environment.md": environment.render_page,
    "docs/reference/events.md": events.render_page,
    "docs/reference/labels-and-annotations.md": object_names.render_page,
    "docs/reference/metrics.md": metrics.render_page,
    "docs/reference/state-directory.md": state_files.render_page,
}
