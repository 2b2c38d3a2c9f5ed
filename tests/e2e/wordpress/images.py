"""The images of the tutorial, made of Debian packages by umoci: named and configured as the tutorial expects them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.image.debian import Packages

from tests.image_files import BuiltImage, Entry, image_in_layout

from .packages import NOT_NEEDED, recommended, write_layer

_HERE = Path(__file__).parent
_SECONDS = 300
_BASE = ("base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "sed")
_MYSQL = ("mariadb-client-core", "mariadb-server-core")
_WORDPRESS = ("libapache2-mod-php", "php-mysql", "wordpress")
# The users that Debian's base-passwd has, and the server's, as the official image numbers it.
_PASSWD = """root:x:0:0:root:/root:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
mysql:x:999:999:MySQL:/var/lib/mysql:/usr/sbin/nologin
"""
_GROUP = "root:x:0:\nnogroup:x:65534:\nwww-data:x:33:\nmysql:x:999:\n"


def build(work: Path, downloads: Path) -> dict[str, BuiltImage]:
    """Build the images `mysql` and `wordpress`, which share a layer. `downloads` keeps packages for the next time."""
    packages = Packages(downloads, NOT_NEEDED)
    theme = recommended(packages, "wordpress", "wordpress-theme-")
    mysql, wordpress = packages.download([*_BASE, *_MYSQL], [*_BASE, *_WORDPRESS, *theme])
    base = [package for package in mysql if package in wordpress]
    layers = {name: work / f"{name}.tar" for name in ("base", "mysql", "wordpress")}
    with ThreadPoolExecutor() as threads:
        for written in [
            threads.submit(write_layer, layers["base"], base, _base_entries()),
            threads.submit(
                write_layer, layers["mysql"], (each for each in mysql if each not in base), _mysql_entries()
            ),
            threads.submit(
                write_layer, layers["wordpress"], (each for each in wordpress if each not in base), _wordpress_entries()
            ),
        ]:
            written.result()
    layout = work / "layout"
    _umoci("init", "--layout", layout)
    _umoci("new", "--image", f"{layout}:base")
    _umoci("raw", "add-layer", "--image", f"{layout}:base", layers["base"])
    for name in ("mysql", "wordpress"):
        _umoci("tag", "--image", f"{layout}:base", name)
        _umoci("raw", "add-layer", "--image", f"{layout}:{name}", layers[name])
    _umoci(
        "config", "--image", f"{layout}:mysql", "--config.entrypoint", "mysql-entrypoint", "--config.cmd", "mariadbd",
        "--config.volume", "/var/lib/mysql", "--config.exposedports", "3306/tcp",
    )  # fmt: skip
    _umoci(
        "config", "--image", f"{layout}:wordpress", "--config.entrypoint", "wordpress-entrypoint",
        *_repeat("--config.cmd", ("apache2", "-f", "/usr/local/etc/apache2.conf", "-DFOREGROUND")),
        "--config.volume", "/var/www/html", "--config.workingdir", "/var/www/html", "--config.exposedports", "80/tcp",
        "--config.stopsignal", "SIGWINCH", "--config.env", "PHP_INI_SCAN_DIR=/usr/local/etc/php/conf.d",
    )  # fmt: skip
    return {name: image_in_layout(layout, name) for name in ("mysql", "wordpress")}


def _repeat(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _umoci(*arguments: object) -> None:
    argv = ["umoci", *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 0, f"{argv}: {done.stderr}"


def _file(name: str, mode: int) -> Entry:
    return {"data": (_HERE / name).read_bytes(), "mode": mode}


def _directory(mode: int = 0o755, owner: int = 0) -> Entry:
    return {"type": b"5", "mode": mode, "uid": owner, "gid": owner}


def _base_entries() -> list[tuple[str, Entry]]:
    return [
        ("etc/passwd", {"data": _PASSWD, "mode": 0o644}),
        ("etc/group", {"data": _GROUP, "mode": 0o644}),
        ("tmp", _directory(0o1777)),
        ("var/tmp", _directory(0o1777)),
    ]


def _mysql_entries() -> list[tuple[str, Entry]]:
    return [
        ("usr/local/bin/mysql-entrypoint", _file("mysql-entrypoint", 0o755)),
        ("usr/bin/mysql", {"type": b"2", "linkname": "mariadb"}),
        ("var/lib/mysql", _directory(0o1777, 999)),
    ]


def _wordpress_entries() -> list[tuple[str, Entry]]:
    return [
        ("usr/local/bin/wordpress-entrypoint", _file("wordpress-entrypoint", 0o755)),
        ("usr/local/etc/apache2.conf", _file("apache2.conf", 0o644)),
        ("usr/local/etc/php/conf.d/extensions.ini", _file("php.ini", 0o644)),
        ("usr/local/share/wp-config.php", _file("wp-config.php", 0o644)),
        ("var/www/html", _directory(0o1777, 33)),
        # WordPress has a link to it. It is made when Debian's package is configured, and no certificate is needed.
        ("etc/ssl/certs/ca-certificates.crt", {"data": "", "mode": 0o644}),
    ]
