"""An empty machine, a root file system of Debian that debootstrap made, and what a lab from the wheel takes there.

The wheel is that of `make release`, in dist/. `make empty-machine` runs tests/e2e/test_empty_machine.py, which prints
the table of docs/installation.md. Debian's packages come by apt-get, those of PyPI by pipx and uv; the lab is started
with --offline, so that it asks no registry for images.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPTS = REPOSITORY / "scripts"
WHEELS = REPOSITORY / "dist"
DEBIAN = {"bookworm": "12", "trixie": "13"}
USERS = ("root", "user")

# The packages of docs/installation.md; `user` needs uidmap for ids of its own.
PACKAGES = {
    "root": ("nftables", "kubernetes-client", "curl"),
    "user": ("nftables", "kubernetes-client", "curl", "uidmap"),
}
_DEADLINE = 1200.0
_STEP, _SIZE = "@step", "@size"

# `step NAME COMMAND...` prints the seconds of a command, and its output when it fails; `size NAME KIBIBYTES`.
_FUNCTIONS = rf"""
set -euo pipefail
step() {{
    local name=$1 begun output
    shift
    output=$(mktemp)
    begun=$(date +%s%N)
    "$@" >"$output" 2>&1 || {{ cat "$output"; echo "$name failed"; exit 1; }}
    echo "{_STEP} $name $(( ($(date +%s%N) - begun) / 1000000 ))"
}}
size() {{ echo "{_SIZE} $1 $2"; }}
packages() {{ dpkg-query -W -f '${{Installed-Size}}\n' | awk '{{ sum += $1 }} END {{ print sum }}'; }}
kibibytes() {{ du -sk "$1" | cut -f 1; }}
"""
_PREPARATION = r"""
export DEBIAN_FRONTEND=noninteractive
before=$(packages)
step apt sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends "$@"' sh $PACKAGES
size apt $(( $(packages) - before ))
before=$(packages)
step pipx.apt apt-get install -q -y --no-install-recommends pipx
size pipx.apt $(( $(packages) - before ))
[ "$VISITOR" = root ] || useradd --create-home --shell /bin/bash "$VISITOR"
home=$(getent passwd "$VISITOR" | cut -d : -f 6)
# uv trusts only certificates of its own, unless it is told otherwise.
runuser -u "$VISITOR" -- env -i HOME="$home" USER="$VISITOR" TERM=dumb LANG=C.UTF-8 PATH="$PATH" \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt bash -c "$VISIT"
"""
_VISIT = r"""
export PATH="$HOME/.local/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1
cd "$HOME"
step pipx pipx install /wheel/*.whl
size pipx $(kibibytes "$(dirname "$(dirname "$(readlink -f "$HOME/.local/bin/bridgehead")")")")
pipx uninstall bridgehead >/dev/null
pipx install uv >/dev/null
step uv uv tool install --python /usr/bin/python3 /wheel/*.whl
size uv $(kibibytes "$(uv tool dir)/bridgehead")
look() {
    %s
}
begun=$(date +%%s%%N)
look
echo "%s look $(( ($(date +%%s%%N) - begun) / 1000000 ))"
"""


@dataclass
class Visit:
    """Seconds of steps, KiB of installed packages and environments, and the output of the first look."""

    seconds: dict[str, float] = field(default_factory=dict)
    kibibytes: dict[str, int] = field(default_factory=dict)
    output: str = ""


def first_look(readme: str) -> list[str]:
    """Return the commands of the README's first look, for a lab that asks no registry."""
    section = re.search(r"^#+ [^\n]*first look[^\n]*\n(.*?)^#", readme, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    if section is None:
        raise ValueError("the README has no section with the title `A first look`")
    commands = re.findall(r"^\$ (.*)$", section[1], re.MULTILINE)
    return [f"{command} --offline" if command.startswith("bridgehead up") else command for command in commands]


def script_of(commands: list[str]) -> str:
    """Return a script of the first look, which prints each command before its output."""
    lines = []
    for command in commands:
        lines.append(f"echo {shlex.quote('$ ' + command)}")
        lines.append(f"step up {command}" if command.startswith("bridgehead up") else command)
    return "\n".join(lines)


def visit(suite: str, user: str) -> Visit:
    """Install the wheel on an empty Debian as `user`, and follow the README. Raises RuntimeError with the output."""
    [wheel] = WHEELS.glob("*.whl")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = cache / "bridgehead" / suite
    subprocess.run((SCRIPTS / "debian-root", suite, root), check=True)
    look = script_of(first_look((REPOSITORY / "README.md").read_text("utf-8")))
    environment = {
        **os.environ,
        "PACKAGES": " ".join(PACKAGES[user]),
        "VISITOR": user,
        "VISIT": _FUNCTIONS + _VISIT % (look, _STEP),
    }
    done = subprocess.run(
        (
            SCRIPTS / "in-root",
            "--copy",
            "--bind",
            f"{wheel.parent}:/wheel",
            root,
            "bash",
            "-c",
            _FUNCTIONS + _PREPARATION,
        ),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_DEADLINE,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Debian {suite}, {user}: exit code {done.returncode}\n{done.stdout}")
    return parse(done.stdout)


def parse(output: str) -> Visit:
    """Take the figures out of a script's output."""
    found = Visit()
    rest = []
    for line in output.splitlines():
        match line.split():
            case [word, name, figure] if word == _STEP:
                found.seconds[name] = int(figure) / 1000
            case [word, name, figure] if word == _SIZE:
                found.kibibytes[name] = int(figure)
            case _:
                rest.append(line)
    found.output = "\n".join(rest)
    return found


def table(visits: dict[tuple[str, str], Visit]) -> str:
    """Return the table of docs/installation.md."""
    rows = [f"| | {' | '.join(f'Debian {DEBIAN[suite]}, {user}' for suite, user in visits)} |"]
    rows.append("| --- |" + " --- |" * len(visits))
    for title, step in (
        ("packages of Debian (apt-get)", "apt"),
        ("pipx itself (apt-get)", "pipx.apt"),
        ("`pipx install`", "pipx"),
        ("`uv tool install`", "uv"),
    ):
        cells = (f"{one.seconds[step]:.1f} s, {one.kibibytes[step] / 1024:.0f} MB" for one in visits.values())
        rows.append(f"| {title} | {' | '.join(cells)} |")
    for title, step in (("`bridgehead up`", "up"), ("the README's first look, `up` to `down`", "look")):
        rows.append(f"| {title} | {' | '.join(f'{one.seconds[step]:.1f} s' for one in visits.values())} |")
    return "\n".join(rows)
