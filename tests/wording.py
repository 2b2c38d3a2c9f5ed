"""Checks of wording: docstrings, comments, `--help` and names in plain technical English.

`python -m tests.wording PATH...` prints every violation below these paths, one per line. The rules: docs/glossary.md
names the few terms of this project's own; everything else uses the words of Kubernetes, the kernel and the RFCs.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.syntax import statements

# Verbs and nouns that once had a private meaning here, and the standard term that replaced each.
PRIVATE_WORDS = {
    "tell": "notify, log, publish",
    "tells": "notifies, logs, publishes",
    "told": "notified, logged, published",
    "mend": "repair",
    "mends": "repairs",
    "mended": "repaired",
    "mending": "repairing",
    "stranger": "foreign, unknown",
    "strangers": "foreign, unknown",
    "deed": "operation, change",
    "deeds": "operations, changes",
    "complaint": "warning, rejection",
    "complaints": "warnings, rejections",
    "words": "text, message, description",
    "says": "reports, states, contains",
    "said": "reported, stated",
    "say": "report, state",
    "hears": "receives, observes",
    "heard": "received, observed",
    "hear": "receive, observe",
}
NAME_ONLY = {
    "place": "address_port, table_spec, path",
    "places": "addresses, paths",
    "way": "dispatch, route",
    "ways": "dispatches, routes",
    "touched": "changed",
}  # Names that are private in one package, by a directory of their path.
PRIVATE_IN = {"proxy": {"inside": "cluster_backends"}}

OPENERS = re.compile(
    r"(And|But|Or|Nor|So|Yet|He|She|We|Who|Whoever|Whose|Whom|What|Whatever|How|Nobody|Somebody|Everybody|Nothing|"
    r"The same|The others|One after|The former|The latter)\b(?! (?:hundred|or more|per)\b)"
)
# These are fine before a noun, not as a subject alone. "It", "This" and "They" may begin a sentence: their noun has
# just been named.
BARE_DEMONSTRATIVE = re.compile(
    r"(That|Those|One|Both|None|Others|Another)\s+"
    r"(is|are|was|were|has|have|had|can|may|must|might|could|should|would|will|does|do|did|who|which|whose|that|keeps?|takes?|gives?|makes?|goes|go|needs?|"
    r"holds?|runs?|comes?|leaves?|of|in|for|with|without|to|from|by|after|before|where|when|at|on)\b"
)

# Openers where a sentence, a docstring or a comment begins.
FIRST_WORDS = re.compile(rf'(?:"""|[.!?#])[\s\\#]*(?:{OPENERS.pattern}|{BARE_DEMONSTRATIVE.pattern})')

# All that is no code in formatted source: a possible docstring (a line begins with it), comments, strings.
NO_CODE = re.compile(
    r'^[ \t]*r?(?P<docstring>""".*?)"""|^[ \t]*(?P<lines>#[^\n]*(?:\n[ \t]*#[^\n]*)*)|(?P<comment>#[^\n]*)|'
    r'"""(?:\\.|.)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL | re.MULTILINE,
)
LINE_OF_COMMENT = re.compile(r"^[ \t]*#+ ?|\n[ \t]*#+ ?")

WORD_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def sentences(text: str) -> list[str]:
    """Split prose into sentences; code spans and list bullets are not prose."""
    text = re.sub(r"``?[^`]*``?", "X", text)
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text) if part.strip()]


def violations_of_sentence(sentence: str) -> Iterator[str]:
    if match := OPENERS.match(sentence) or BARE_DEMONSTRATIVE.match(sentence):
        yield f"begins with {match.group(0)!r}: {sentence}"
    yield from private_words(sentence)


def private_words(sentence: str) -> Iterator[str]:
    for word in re.findall(r"[A-Za-z']+", sentence):
        if (better := PRIVATE_WORDS.get(word.lower())) is not None:
            yield f"{word!r} (rather: {better}): {sentence}"


def private_names(path: Path) -> dict[str, str]:
    """Return the words that names must not contain in the module at `path`, with the standard terms."""
    return (
        PRIVATE_WORDS | NAME_ONLY | {w: better for part in path.parts for w, better in PRIVATE_IN.get(part, {}).items()}
    )


def violations_of_name(name: str, private: dict[str, str]) -> Iterator[str]:
    for word in WORD_OF_NAME.findall(name):
        if (better := private.get(word.lower())) is not None:
            yield f"name {name!r} (rather: {better})"


def terms_of(text: str) -> set[str]:
    """Return the words of which names and prose consist, in lower case."""
    found = WORD_OF_NAME.findall(" ".join(set(re.findall(r"\w+", text))))
    return {word.lower() for word in found}


def may_have_violations(source: str, private: dict[str, str]) -> bool:
    """Return whether formatted source may break a rule: a closer look, which takes long, is for few modules."""
    return not private.keys().isdisjoint(terms_of(source)) or FIRST_WORDS.search(source) is not None


def needs_parsing(source: str, private: dict[str, str]) -> bool:
    """Return whether docstrings or names of formatted source may break a rule."""
    prose = [docstring for match in NO_CODE.finditer(source) if (docstring := match["docstring"])]
    if FIRST_WORDS.search("".join(text.partition("\n\n")[0] for text in prose)):
        return True
    names = terms_of(NO_CODE.sub("", source))
    return not (private.keys().isdisjoint(names) and PRIVATE_WORDS.keys().isdisjoint(terms_of(" ".join(prose))))


def violations_of_comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield violations in comments: of sentences in those that have lines of their own, of words in the others."""
    for match in NO_CODE.finditer(source):
        text, check = match["lines"], violations_of_sentence
        if text is None:
            text, check = match["comment"], private_words
        for sentence in sentences(LINE_OF_COMMENT.sub(" ", text or "")):
            for violation in check(sentence):
                yield source.count("\n", 0, match.start()) + 1, violation


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in (tree, *statements(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and isinstance(node.body[0], ast.Expr):
                yield node.body[0].lineno, text


def defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def violations_of_module(path: Path) -> Iterator[tuple[int, str]]:
    private = private_names(path)
    for violation in violations_of_name(path.stem, private):
        yield 1, f"file {violation}"
    source = path.read_text()
    if not may_have_violations(source, private):
        return
    yield from violations_of_comments(source)
    if not needs_parsing(source, private):
        return
    tree = ast.parse(source)
    for line, text in docstrings(tree):
        first, *others = (paragraph.replace("\n", " ") for paragraph in text.split("\n\n"))
        for sentence in sentences(first):
            for violation in violations_of_sentence(sentence):
                yield line, violation
        for sentence in (sentence for paragraph in others for sentence in sentences(paragraph)):
            for violation in private_words(sentence):
                yield line, violation
    for line, name in sorted(set(defined_names(tree))):
        for violation in violations_of_name(name, private):
            yield line, violation


def modules_below(root: Path) -> list[Path]:
    """Return the modules to check: all but this one and its tests, which contain the words that others must not."""
    found = sorted(root.rglob("*.py")) if root.is_dir() else [root]
    return [path for path in found if path.name not in ("wording.py", "test_wording.py")]


def main() -> None:
    count = 0
    for argument in sys.argv[1:]:
        for path in modules_below(Path(argument)):
            for line, violation in violations_of_module(path):
                count += 1
                sys.stdout.write(f"{path}:{line}: {violation}\n")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
