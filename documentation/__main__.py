"""Write the pages that are made of the code.

python -m documentation
"""

from __future__ import annotations

from .pages import PAGES
from .source import ROOT


def main() -> None:
    for path, render in PAGES.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(render(), "utf-8")


if __name__ == "__main__":
    main()
