"""docs/reference/environment.md: environment variables, those of options and those that the code reads itself."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from bridgehead import cli

from .source import constants_of, modules, text_of
from .tables import code, codes, escaped, made_by, table

# Variables that are no option's, and their meaning.
MEANINGS: Mapping[str, str] = {
    "BRIDGEHEAD_KUBECONFIG": "Kubeconfig of the cluster that the [plugin for pytest](../testing.md) uses, not a lab.",
    "DISPLAY": "With it or WAYLAND_DISPLAY there is a desktop, and `open` and `dashboard` open its browser.",
    "DOCKER_CONFIG": "Directory of `config.json` with credentials of registries. Default: `~/.docker`.",
    "KUBECONFIG": "Kubeconfig of the commands that look at a cluster and of the parts, as kubectl reads it.",
    "PATH": "Where programs are looked for; the directories of administrators' commands are added.",
    "SHELL": "The shell that `shell` opens. Default: `/bin/sh`.",
    "WAYLAND_DISPLAY": "See DISPLAY.",
    "XDG_STATE_HOME": "Labs' state is in `bridgehead/` below it. Default: `~/.local/state`.",
    "KUBERNETES_SERVICE_HOST": "In a pod: address of the API server, for a part without a kubeconfig.",
    "KUBERNETES_SERVICE_PORT": "In a pod: port of the API server, for a part without a kubeconfig.",
}
# Variables that the code sets or hides for libraries, and that no user sets.
INTERNAL = {"GRPC_VERBOSITY", "SSL_CERT_FILE"}

_INTRODUCTION = """\
An option on the command line goes before its variable. `eval "$(bridgehead env)"` sets PATH, KUBECONFIG and
BRIDGEHEAD_NAME. Credential plugins of a kubeconfig (`exec`), Docker's credential helpers, and `{$NAME}` in a Corefile
read the whole environment.

"""


def of_options() -> dict[str, list[tuple[str, str, str]]]:
    """Return the command, the option and its text for each variable of options."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name in cli.COMMANDS:
        for param in cli.load_command(name).params:
            variables = param.envvar or ()
            for variable in (variables,) if isinstance(variables, str) else variables:
                option = next((each for each in param.opts if each.startswith("--")), param.opts[0])
                found.setdefault(variable, []).append((name, option, " ".join((param.help or "").split())))
    return found


def read_in_code() -> set[str]:
    """Return the variables that the code looks up in its environment by a constant name."""
    found = set()
    for module in modules():
        if module.path.startswith("standins/") or "environ" not in module.text:  # the environment there is a pod's
            continue
        constants = constants_of(module.tree)
        for node in ast.walk(module.tree):
            match node:
                case ast.Subscript(value=owner, slice=key) if ast.unparse(owner) in ("os.environ", "environment"):
                    pass
                case ast.Call(func=ast.Attribute(value=owner, attr="get" | "setdefault"), args=[key, *_]) if (
                    ast.unparse(owner) in ("os.environ", "environment")
                ):
                    pass
                case _:
                    continue
            name = text_of(key, constants)
            if name and name.isupper():
                found.add(name)
    return found


def render_page() -> str:
    """Return the page."""
    rows = []
    for variable, uses in of_options().items():
        texts = dict.fromkeys(text for _, _, text in uses)
        options = codes(dict.fromkeys(f"{option}" for _, option, _ in uses))
        names = codes(name for name, _, _ in uses)
        meaning = MEANINGS.get(variable) or next(
            filter(None, texts), "accepted, without effect (see [Configurations](../configurations.md))"
        )
        rows.append((code(variable), escaped(meaning), options, names if len(uses) <= 8 else "most commands"))
    listed = {row[0] for row in rows}
    rows += [(code(name), escaped(text), "", "") for name, text in MEANINGS.items() if code(name) not in listed]
    return (
        "# Environment variables\n\n"
        + made_by("environment")
        + _INTRODUCTION
        + table(("variable", "meaning", "the same as", "commands"), sorted(rows))
    )
