"""A visitor and author of a WordPress site, with curl in the lab: the installer's form, the login, the REST API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Lab

_USER, _PASSWORD = "admin", "a-long-password-of-the-test"


class Site:
    """The site at `url`, as the lab's first network sees it. `directory` keeps the cookies."""

    def __init__(self, lab: Lab, url: str, directory: Path) -> None:
        self._lab = lab
        self._url = url
        self._cookies = directory / "cookies"

    def read(self, path: str) -> tuple[int, str]:
        """GET: the status (0 without an answer) and the body, after redirects."""
        return self._send(path, "--location")

    def is_to_be_installed(self) -> bool:
        """Whether the site leads to its installer, as it does when the database answers and is empty."""
        status, page = self.read("/")
        return status == 200 and "Install WordPress" in page

    def install(self, title: str) -> None:
        fields = {
            "weblog_title": title, "user_name": _USER, "admin_password": _PASSWORD, "admin_password2": _PASSWORD,
            "pw_weak": "on", "admin_email": "admin@example.com", "blog_public": "0", "Submit": "Install WordPress",
        }  # fmt: skip
        status, page = self._send("/wp-admin/install.php?step=2", *_form(fields))
        assert status == 200, (status, page)
        assert "WordPress has been installed" in page, page

    def log_in(self) -> None:
        fields = {"log": _USER, "pwd": _PASSWORD, "testcookie": "1", "wp-submit": "Log In"}
        cookie = "wordpress_test_cookie=WP%20Cookie%20check"
        status, page = self._send("/wp-login.php", "--cookie", cookie, *_form(fields))
        assert status == 302, (status, page)

    def write(self, title: str, text: str) -> int:
        """Publish a post; returns its number."""
        nonce = self._send("/wp-admin/admin-ajax.php?action=rest-nonce")[1]
        post = {"title": title, "content": text, "status": "publish"}
        headers = _repeat("--header", f"X-WP-Nonce: {nonce}", "Content-Type: application/json")
        status, answer = self._send("/?rest_route=/wp/v2/posts", *headers, "--data", json.dumps(post))
        assert status == 201, (status, answer)
        found: dict[str, Any] = json.loads(answer)
        return int(found["id"])

    def _send(self, path: str, *options: str) -> tuple[int, str]:
        done = self._lab.inside(
            "curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", "--cookie", self._cookies,
            "--cookie-jar", self._cookies, *options, f"{self._url}{path}",
        )  # fmt: skip
        body, _, status = done.stdout.rpartition("\n")
        return int(status or 0), body


def _form(fields: dict[str, str]) -> list[str]:
    return _repeat("--data-urlencode", *(f"{name}={value}" for name, value in fields.items()))


def _repeat(option: str, *values: str) -> list[str]:
    return [word for value in values for word in (option, value)]
