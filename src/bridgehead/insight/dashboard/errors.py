"""Errors of questions.

Unanswerable   the question makes no sense, or its object does not exist
"""

from __future__ import annotations


class Unanswerable(Exception):
    """A question about something that does not exist, or with parameters that make no sense. The text is one line."""
