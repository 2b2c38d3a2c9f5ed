"""The file of static tokens."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.access.static_tokens import read_token_file
from bridgehead.apiserver.http.user import AUTHENTICATED, User


def test_token_files_are_parsed_and_validated(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text('# who\nsecret,bob,7,"a,b"\nplain,eve,8\n\n')
    assert read_token_file(path) == {
        "secret": User("bob", ("a", "b", AUTHENTICATED), "7"),
        "plain": User("eve", (AUTHENTICATED,), "8"),
    }
    path.write_text("only-a-token\n")
    with pytest.raises(ValueError, match="line 1: expected at least 3 columns"):
        read_token_file(path)
