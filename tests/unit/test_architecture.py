"""The import arrows of docs/architecture.md, held by the contracts in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).with_name("lint-imports")


def lint_imports(config: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINTER, "--no-cache", "--config", config], cwd=cwd, capture_output=True, text=True, timeout=200
    )


def test_imports_go_one_way():
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
