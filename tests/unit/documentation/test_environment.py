"""Environment variables."""

from __future__ import annotations

from documentation import environment, state_files


def test_every_variable_that_the_code_reads_has_a_meaning() -> None:
    known = environment.MEANINGS.keys() | environment.of_options().keys() | environment.INTERNAL
    assert environment.read_in_code() - known == set()


def test_every_meaning_is_of_a_variable_that_is_read() -> None:
    assert environment.MEANINGS.keys() - environment.read_in_code() - environment.of_options().keys() == set()


def test_every_file_of_a_lab_is_on_the_page() -> None:
    assert state_files.properties() == state_files.MEANINGS.keys() | state_files.SETS
