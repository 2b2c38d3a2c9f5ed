"""The suite itself: signals of the programs that tests start, missing programs, forked processes, and files' names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import forks, tools
from tests.conftest import pytest_xdist_make_scheduler

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"
MISSING = "no-such-command is missing (Debian: apt-get install no-such-command)"


def test_programs_started_by_tests_have_default_signal_handlers() -> None:
    """A script's background job ignores SIGINT and SIGQUIT."""
    program = (
        "import subprocess, tests.conftest\n"
        "for name in ('INT', 'QUIT'): print(subprocess.run(['sh', '-c', f'kill -{name} $$']).returncode)"
    )
    argv = ["sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh", sys.executable, "-c", program]
    result = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == [str(-signal.SIGINT), str(-signal.SIGQUIT)], result.stderr


def test_a_forked_process_that_takes_too_long_is_killed_and_others_go_on() -> None:
    with open(os.devnull, encoding="ascii") as nothing:
        streams = [nothing.fileno()]
        slow = forks.fork("time:sleep", 1000, streams=streams)
        with pytest.raises(subprocess.TimeoutExpired):
            slow.wait(0)
        deadline = time.monotonic() + 60
        while Path(f"/proc/{slow.pid}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert forks.fork("time:sleep", 0, streams=streams).wait(60) == 0


def test_files_with_guests_go_to_one_worker(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker with such a file would boot a kernel of its own."""
    for name, value in (("dist", "loadfile"), ("tx", ["popen"])):  # also in a run without the plug-in
        monkeypatch.setattr(pytestconfig.option, name, value, raising=False)
    scheduler = pytest_xdist_make_scheduler(pytestconfig, None)
    ipvs, limits, dns = (f"tests/integration/test_{name}.py" for name in ("proxy_ipvs", "kubelet_limits", "dns"))
    scopes = [scheduler._split_scope(f"{file}::test_x[{i}]") for i, file in enumerate((ipvs, limits, dns, dns))]
    assert scopes[0] == scopes[1]
    assert scopes[1:] == [scopes[0], dns, dns]


def test_a_missing_program_is_a_skip_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRIDGEHEAD_REQUIRE_TOOLS", raising=False)
    with pytest.raises(pytest.skip.Exception) as raised:
        tools.require("sh", "no-such-command")
    assert raised.value.msg == MISSING


def test_a_missing_program_is_a_failure_if_all_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGEHEAD_REQUIRE_TOOLS", "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-command is missing"):
        tools.require("no-such-command")


@pytest.mark.parametrize(
    ("command", "package"),
    [("dig", "bind9-dnsutils"), ("tc", "iproute2"), ("iptables-nft-restore", "iptables"), ("conntrack", "conntrack")],
)
def test_commands_have_packages(command: str, package: str) -> None:
    """The packages are those of scripts/system-packages."""
    assert tools.package_of(command) == package


FILES = {
    "test_a.py": """
import os, pytest
@pytest.fixture(scope="module")
def number(): return 1
def test_one(number): assert number == 1
def test_two(number): assert number == 2
""",
    "test_b.py": """
import os, pytest
def test_skipped(): pytest.skip("a reason")
@pytest.fixture
def broken():
    yield
    raise OSError("in teardown")
def test_teardown(broken): print("some output")
""",
}


def forked(directory: Path, *options: str) -> str:
    """Run the tests of a directory in two processes; return what pytest prints, with its status."""
    argv = [sys.executable, "-m", "pytest", "-p", "tests.forking", "--processes", "2", "-p", "no:cacheprovider", "-c"]
    argv += ["/dev/null", "--rootdir", str(directory), *options, str(directory)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    return f"{result.stdout}{result.stderr}status {result.returncode}"


def test_forked_processes_run_every_test_once(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    printed = forked(tmp_path, "-rs", "--capture", "sys")
    assert "1 failed, 2 passed, 1 skipped, 1 error" in printed
    assert all(text in printed for text in ("assert 1 == 2", "OSError: in teardown", "some output", "a reason"))
    assert printed.endswith("status 1")


def test_a_forked_process_that_ends_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_crash.py").write_text("import os\ndef test_crash(): os._exit(0)\ndef test_next(): ...\n")
    printed = forked(tmp_path, "--capture", "sys")
    assert "a process ended while it ran tests of test_crash.py" in printed
    assert printed.endswith("status 1")


def test_forked_processes_refuse_to_share_the_files_of_captured_output(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(FILES["test_a.py"])
    assert "use --capture sys" in forked(tmp_path)


def package_of(directory: Path) -> Path:
    """The package that the tests of a directory of tests/unit are of."""
    part = directory.relative_to(UNIT)
    is_of_root = part.parts[:1] in (("benchmarks",), ("chaos",), ("deploy",), ("documentation",))
    return ROOT / part if is_of_root else ROOT / "src" / "bridgehead" / part


def misplaced(test: str, package: Path) -> list[str]:
    """Return the modules below the package that a test is named after although it does not lie beside them."""
    name = test.removeprefix("test_").removesuffix(".py")
    of_package = name.removeprefix(f"{package.name}_")
    if (package / name).with_suffix(".py").exists() or (package / name).is_dir():
        return []
    below = {*package.rglob(f"{name}.py"), *package.glob(f"{of_package}.py")}
    return sorted(str(module.relative_to(package)) for module in below)


def test_the_unit_test_of_a_module_has_its_name_and_lies_in_its_package() -> None:
    """A test of several modules has a name that is no module's."""
    tests = [path for path in UNIT.rglob("test_*.py") if path.parent != UNIT]
    assert len(tests) > 400
    assert {path.parent for path in tests if not package_of(path.parent).is_dir()} == set()
    found = {str(path): misplaced(path.name, package_of(path.parent)) for path in tests}
    assert {path: modules for path, modules in found.items() if modules} == {}


@pytest.mark.parametrize(
    ("test", "modules"),
    [("test_query_log.py", ["serving/query_log.py"]), ("test_dns_config.py", ["config.py"]), ("test_untrusted.py", [])],
)
def test_the_check_of_names_finds_modules(test: str, modules: list[str]) -> None:
    assert misplaced(test, ROOT / "src" / "bridgehead" / "dns") == modules
