"""The lines about what a stand-in does not do."""

from __future__ import annotations

import pytest

from bridgehead.standins.programs.disclosures import (
    Abilities,
    describe_configuration,
    describe_start,
    find_configuration_mounts,
)
from bridgehead.standins.programs.redis import parse_arguments
from bridgehead.standins.standin import Setup

WEB = Abilities(role="a web server", ports=("80/TCP",), configuration=("/etc/nginx",))


def test_the_first_line_names_the_stand_in() -> None:
    assert describe_start(Setup(image="nginx:1.25", ports=("80/TCP",)), WEB) == [
        "This is Bridgehead's stand-in for nginx:1.25, not the image itself: a web server"
    ]


def test_what_has_no_effect_is_named() -> None:
    setup = Setup(image="nginx", ports=("80/TCP", "443/TCP", "80/UDP"), variables=("A", "B"))
    abilities = Abilities(role="a web server", ports=("80/TCP",), ignored_arguments=("-c", "/etc/x.conf"))
    assert describe_start(setup, abilities)[1:] == [
        "stand-in: nothing listens on containerPort 443/TCP, 80/UDP: it listens on 80/TCP only",
        "stand-in: environment variables have no effect: A, B",
        "stand-in: arguments have no effect: -c /etc/x.conf",
    ]


def test_a_program_without_ports_is_named_as_one() -> None:
    assert describe_start(Setup(ports=("80/TCP",)), Abilities(role="a program"))[1] == (
        "stand-in: nothing listens on containerPort 80/TCP: it listens on no port"
    )


@pytest.mark.parametrize(
    ("mount", "is_configuration"),
    [
        ("/etc/nginx/conf.d", True),
        ("/etc/nginx/nginx.conf", True),
        ("/etc/nginx/", True),
        ("/etc", True),
        ("/etc/nginx-other", False),
        ("/usr/share/nginx/html", False),
        ("/var/run/secrets/kubernetes.io/serviceaccount", False),
    ],
)
def test_mounts_with_configuration_are_found(mount: str, is_configuration: bool) -> None:
    assert find_configuration_mounts(Setup(mounts=(mount,)), WEB) == ((mount,) if is_configuration else ())


def test_configuration_is_named_with_its_files() -> None:
    assert describe_configuration("/etc/nginx/conf.d", ["a.conf", "b.conf"]) == (
        "stand-in: the configuration in /etc/nginx/conf.d (a.conf, b.conf) has no effect: a stand-in reads none"
    )
    assert describe_configuration("/etc/nginx/nginx.conf", []) == (
        "stand-in: the configuration in /etc/nginx/nginx.conf has no effect: a stand-in reads none"
    )


@pytest.mark.parametrize(
    ("arguments", "port", "ignored"),
    [
        ((), 6379, ()),
        (("--port", "6380"), 6380, ()),
        (
            ("/etc/redis.conf", "--port", "6380", "--appendonly", "yes"),
            6380,
            ("/etc/redis.conf", "--appendonly", "yes"),
        ),
        (("--port", "x"), 6379, ("--port", "x")),
        (("--port",), 6379, ("--port",)),
    ],
)
def test_arguments_of_redis(arguments: tuple[str, ...], port: int, ignored: tuple[str, ...]) -> None:
    assert parse_arguments(arguments) == (port, ignored)
