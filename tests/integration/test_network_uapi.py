"""Constants in network/uapi, compared by the C compiler with the headers that they name."""

import ast
import importlib
import platform
import subprocess
from pathlib import Path

import pytest

import bridgehead.network.uapi

DIRECTORY = Path(bridgehead.network.uapi.__file__).parent
INCLUDE = Path("/usr/include")
# Headers that no package installs.
IN_SOURCE_ONLY = {"nf_internals", "nft_datatype"}
# Headers that have to come first.
PREREQUISITES = {
    "linux/if.h": "#include <sys/socket.h>",
    "linux/mount.h": "#include <fcntl.h>",
    "linux/netfilter.h": "#include <netinet/in.h>",
    "linux/netfilter_ipv4.h": "#include <limits.h>\n#include <netinet/in.h>",
    "linux/netfilter/nfnetlink.h": "#include <linux/netlink.h>",
    "linux/sched.h": "#include <linux/types.h>",
}
MODULES = sorted(path.stem for path in DIRECTORY.glob("*.py") if path.stem != "__init__")


def header_of(module: str) -> str:
    docstring = ast.get_docstring(ast.parse((DIRECTORY / f"{module}.py").read_text()))
    assert docstring is not None
    return docstring.partition(":")[0]


def constants_of(module: str) -> dict[str, int | str]:
    """Name to value; of numbers that depend on the architecture, this machine's."""
    found = vars(importlib.import_module(f"bridgehead.network.uapi.{module}"))
    constants = {name: value for name, value in found.items() if name.isidentifier() and not name.startswith("__")}
    constants.pop("Final")
    return {
        name: value.get(platform.machine()) if isinstance(value, dict) else value for name, value in constants.items()
    }


@pytest.mark.needs("cc")
@pytest.mark.parametrize("module", [module for module in MODULES if module not in IN_SOURCE_ONLY])
def test_constants_match_the_header(module, tmp_path):
    header = header_of(module)
    if not (INCLUDE / header).exists() and not list(INCLUDE.glob(f"*-linux-gnu/{header}")):
        pytest.skip(f"needs {header}")
    constants = {name: value for name, value in constants_of(module).items() if value is not None}
    assert constants
    checks = [
        f'_Static_assert(sizeof({name}) == sizeof("{value}"), "{name}");'
        if isinstance(value, str)
        else f'_Static_assert(({name}) == {value}, "{name}");'
        for name, value in constants.items()
    ]
    source = tmp_path / "check.c"
    source.write_text(
        "\n".join(["#define _GNU_SOURCE", PREREQUISITES.get(header, ""), f"#include <{header}>", *checks])
    )
    result = subprocess.run(["cc", "-fsyntax-only", source], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


@pytest.mark.needs("cc")
def test_a_wrong_constant_is_reported(tmp_path):
    """The check fails if a value differs."""
    source = tmp_path / "check.c"
    source.write_text('#include <linux/netlink.h>\n_Static_assert((NLM_F_ACK) == 5, "NLM_F_ACK");\n')
    result = subprocess.run(["cc", "-fsyntax-only", source], capture_output=True, text=True, timeout=60)
    assert "NLM_F_ACK" in result.stderr
