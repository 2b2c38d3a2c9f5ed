"""The committed page is the one that its sources make, and its texts are complete."""

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
SOURCES = ROOT / "dashboard"
BUILT = ROOT / "src/bridgehead/insight/dashboard/static"


def test_the_page_was_built_from_its_sources():
    names = [f"src/{path.name}" for path in (SOURCES / "src").iterdir()]
    names += ["build.mjs", "package-lock.json", "package.json"]
    digest = hashlib.sha256()
    for directory, files in ((SOURCES, sorted(names)), (BUILT, ["app.css", "app.js", "icon.svg", "index.html"])):
        for name in files:
            digest.update(f"{name}\0".encode() + (directory / name).read_bytes() + b"\0")
    recorded = (BUILT / "built-from.sha256").read_text().strip()
    assert digest.hexdigest() == recorded, "run scripts/build-dashboard"


def texts(language):
    return json.loads((SOURCES / "src" / f"{language}.json").read_text())


def test_both_languages_have_the_same_texts_with_the_same_values():
    english, chinese = texts("en"), texts("zh")
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", chinese[key])), key


def test_every_text_that_the_page_names_exists():
    code = "\n".join(path.read_text() for path in (SOURCES / "src").glob("*.js*") if path.suffix != ".json")
    named = set(re.findall(r"""\bt\("([\w.]+)\"""", code))
    assert named
    assert named <= texts("en").keys()


def test_the_page_sets_no_markup_from_text():
    code = "\n".join(path.read_text() for path in (SOURCES / "src").glob("*.js*"))
    for forbidden in ("dangerouslySetInnerHTML", "innerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert forbidden not in code


def test_nothing_is_loaded_from_outside():
    html = (BUILT / "index.html").read_text()
    assert re.findall(r"""(?:src|href)="([^"]+)\"""", html) == ["/icon.svg", "/app.css", "/app.js"]
    assert "<style" not in html
    assert " style=" not in html
    assert "url(" not in (BUILT / "app.css").read_text()
