"""docs/reference/corefile.md: the DNS's table of directives, from its README."""

from __future__ import annotations

import re

from bridgehead.dns.corefile.directives import DIRECTIVES

from .source import SOURCE
from .tables import made_by

_README = SOURCE / "dns" / "README.md"
_INTRODUCTION = """\
`bridgehead dns --config FILE` reads a Corefile. In a lab it is the ConfigMap `coredns` in `kube-system`:

    kubectl -n kube-system edit configmap coredns

"""


def described() -> set[str]:
    """Return the directives of the table."""
    return set(re.findall(r"^\| `(\w+)", _section(), re.MULTILINE))


def _section() -> str:
    return _README.read_text("utf-8").partition("## A Corefile\n\n")[2].partition("\nIn a lab the file")[0]


def render_page() -> str:
    """Return the page. Raises ValueError when the table lacks a directive."""
    if missing := DIRECTIVES.keys() - described():
        raise ValueError(f"{_README} does not describe {sorted(missing)}")
    return "# Corefile\n\n" + made_by("corefile") + _INTRODUCTION + _section()
