"""Arguments and variables: expansion of references, and the sizes that execve(2) takes."""

from __future__ import annotations

import os
import subprocess

import pytest

from bridgehead.kubelet.containers.argument_list import ARG_MAX, MAX_ARG_STRLEN, ArgumentList, expand
from bridgehead.kubelet.containers.handlers import probe_command
from bridgehead.kubelet.errors import ArgumentListTooLong
from bridgehead.objects.core import Container, EnvVar, EnvVarSource


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("a$(A)b$(B)", "a1b2"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("100%$", "100%$"),
        ("$$", "$"),
        ("$()", "$()"),
    ],
)
def test_references_are_expanded(text, expanded):
    assert expand(text, {"A": "1"}, {"A": "shadowed", "B": "2"}) == expanded


def test_the_longest_variable_and_argument_are_those_that_the_kernel_takes():
    longest = "x" * (MAX_ARG_STRLEN - len("A=") - 1)
    arguments = ArgumentList()
    arguments.set_variable("A", longest)
    assert arguments.expand_texts(["x$(A)x"], "args", {"A": longest}) == (f"x{longest}x",)
    subprocess.run(["true", f"x{longest}x"], env={"A": longest, "PATH": os.environ["PATH"]}, check=True)
    with pytest.raises(ArgumentListTooLong, match='environment variable "A" has more than 131072 bytes'):
        arguments.set_variable("A", longest + "x")
    with pytest.raises(ArgumentListTooLong, match=r"args\[1\] has more than 131072 bytes"):
        ArgumentList().expand_texts(["", "x$(A)xx"], "args", {"A": longest})
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["true", f"x{longest}xx"], check=False)


def test_bytes_count_not_characters():
    with pytest.raises(ArgumentListTooLong):
        ArgumentList().set_variable("A", "\N{SNOWMAN}" * (MAX_ARG_STRLEN // 3))


def test_a_long_name_is_cut_in_the_message():
    for name in ("N" * 300_000, "N" * 131_000):
        with pytest.raises(
            ArgumentListTooLong, match=rf'environment variable "{"N" * 100}\.\.\." has more than 131072'
        ):
            ArgumentList().expand_variable(name, "x" * 100)


def test_a_variable_that_is_set_again_counts_once():
    arguments = ArgumentList()
    for _ in range(2 * ARG_MAX // 1000):
        arguments.set_variable("A", "x" * 1000)


def test_many_arguments_are_bounded_together():
    with pytest.raises(
        ArgumentListTooLong, match=r"with command\[20\d\d\d\], arguments and environment have more than"
    ):
        ArgumentList().expand_texts(["x" * 92] * 10**5, "command", {})


def test_the_command_of_a_probe_has_the_variables_that_are_a_text_only():
    env = (
        EnvVar(name="PORT", value="80"),
        EnvVar(name="URL", value="x:$(PORT)"),
        EnvVar(name="NODE", value_from=EnvVarSource()),
    )
    container = Container(name="c", env=env)
    command = ("get", "$(URL)", "$(NODE)", "$(HOME)", "$$(PORT)")
    assert probe_command(command, container) == ("get", "x:$(PORT)", "", "$(HOME)", "$(PORT)")
    long = Container(name="c", env=(EnvVar(name="A", value="x" * 2**16),))
    with pytest.raises(ArgumentListTooLong, match=r"exec.command\[1\] has more than 131072 bytes"):
        probe_command(("get", "$(A)$(A)"), long)
