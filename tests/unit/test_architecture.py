"""The import arrows of docs/architecture.md, held by the contracts in pyproject.toml."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pure_modules import DOCSTRINGS, PURE, PURE_CHAOS_MODULES, PURE_MODULES, SOURCE
from tests.syntax import statements

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).with_name("lint-imports")


def lint_imports(config: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINTER, "--no-cache", "--config", config], cwd=cwd, capture_output=True, text=True, timeout=200
    )


def test_imports_have_no_cycle():
    result = lint_imports(ROOT / "pyproject.toml", ROOT)
    assert result.returncode == 0, result.stdout


def test_the_check_fails_on_a_wrong_import(tmp_path):
    package = tmp_path / "bridgehead"
    for part in ("cli", "lab", "client", "storage", "objects"):
        (package / part).mkdir(parents=True)
        (package / part / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "objects" / "__init__.py").write_text("import bridgehead.lab\n")
    config = tmp_path / "pyproject.toml"
    config.write_text(
        '[tool.importlinter]\nroot_package = "bridgehead"\n'
        '[[tool.importlinter.contracts]]\nname = "arrows"\ntype = "layers"\ncontainers = ["bridgehead"]\n'
        'layers = ["cli", "lab", "client | storage", "objects"]\n'
    )
    result = lint_imports(config, tmp_path)
    assert result.returncode == 1
    assert "bridgehead.objects -> bridgehead.lab" in result.stdout


# --- Style of imports -----------------------------------------------------------------------------------------------


def imports_of_own_package(source: str, package: str) -> list[int]:
    """Return the lines that import a module of the same package by its whole name."""
    return [
        node.lineno
        for node in statements(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and not node.level and f"{node.module}.".startswith(f"{package}.")
    ]


def test_modules_of_the_same_package_are_imported_with_one_dot():
    """That others are not imported with several is ruff's rule TID252."""
    found = {}
    for path in (SOURCE / "bridgehead").glob("*/**/*.py"):
        package, source = ".".join(path.parent.relative_to(SOURCE).parts), path.read_text("utf-8")
        if f"from {package}" in source and (lines := imports_of_own_package(source, package)):
            found[str(path)] = lines
    assert found == {}


def test_the_check_of_imports_finds_whole_names():
    assert imports_of_own_package("import a\n\nfrom a.b.c import d\nfrom a.bc import e\n", "a.b") == [3]


# --- Netlink --------------------------------------------------------------------------------------------------------


def opens_netlink(source: str) -> bool:
    """Return whether the code names AF_NETLINK, other than in text."""
    return "AF_NETLINK" in source and any(
        (isinstance(node, ast.Attribute) and node.attr == "AF_NETLINK")
        or (isinstance(node, ast.alias) and node.name == "AF_NETLINK")
        for node in ast.walk(ast.parse(source))
    )


def test_one_module_opens_netlink_sockets():
    found = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if opens_netlink(path.read_text())]
    assert found == ["bridgehead/network/netlink_socket.py"]


def test_the_netlink_check_finds_each_spelling():
    assert opens_netlink("import socket\nsocket.socket(socket.AF_NETLINK)\n")
    assert opens_netlink("from socket import AF_NETLINK as family\n")
    assert not opens_netlink("'AF_NETLINK'  # AF_NETLINK\n")


# --- Pure modules ---------------------------------------------------------------------------------------------------

IMPURE_MODULES = {
    "asyncio",
    "socket",
    "subprocess",
    "os",
    "time",
    "random",
    "logging",
    "secrets",
    "shutil",
    "threading",
    "ctypes",
    "fcntl",
    "select",
    "signal",
    "ssl",
    "tempfile",
    "uuid",
    "http",
    "sqlite3",
    "multiprocessing",
    "concurrent",
}


def imported_modules(source: str) -> set[str]:
    """The top-level names of all absolute imports, also of those inside functions."""
    modules = set()
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules.add((node.module or "").split(".")[0])
    return modules


# A match for each line of formatted source that imports; to parse all modules takes longer.
IMPORTED = re.compile(r"^[ \t]*(?:from|import) (\w+)", re.MULTILINE)


def test_modules_that_claim_to_be_pure_are_pure() -> None:
    maybe_impure = {
        path: source
        for path in PURE_MODULES + PURE_CHAOS_MODULES
        if not IMPURE_MODULES.isdisjoint(IMPORTED.findall(source := path.read_text("utf-8")))
    }
    impure = {path: imported_modules(source) & IMPURE_MODULES for path, source in maybe_impure.items()}
    assert {str(path.relative_to(ROOT)): modules for path, modules in impure.items() if modules} == {}


@pytest.mark.parametrize("source", ["import os\n", "def f():\n    from os.path import join\n", "import http.client\n"])
def test_the_check_of_pure_modules_finds_imports(source: str) -> None:
    assert not IMPURE_MODULES.isdisjoint(IMPORTED.findall(source))
    assert imported_modules(source) & IMPURE_MODULES


def test_the_core_is_pure():
    pure = {str(path.relative_to(SOURCE / "bridgehead").with_suffix("")) for path in PURE_MODULES}
    heart = {
        str(path.relative_to(SOURCE / "bridgehead").with_suffix(""))
        for path in (SOURCE / "bridgehead" / "objects").rglob("*.py")
    }
    heart |= {
        "proxy/service_frontends",
        "proxy/backends",
        "proxy/frontends",
        "proxy/nftables/render",
        "proxy/iptables/render",
    }
    assert heart <= pure


def test_the_oracle_of_the_chaos_run_is_pure():
    assert {"ledger", "effects", "convergence", "report"} <= {path.stem for path in PURE_CHAOS_MODULES}


def test_purity_is_claimed_in_the_same_sentence():
    vague = [str(path) for path, text in DOCSTRINGS.items() if re.search(r"(?i)\bpure\b", text.replace(PURE, ""))]
    assert vague == []
