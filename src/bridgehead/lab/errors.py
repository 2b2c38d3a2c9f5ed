"""Errors of the lab. Every message is one line with advice; the command prints it and exits with the code that
`cli/failures.py` has for it.

LabError         base class
AlreadyRunning   `up` of a running lab
NotRunning       a command that needs a running lab
Unsupported      this machine lacks something
StartFailed      a part did not start; the message contains the last line of its log
"""

from __future__ import annotations


class LabError(Exception):
    """An operation that the lab refuses or cannot do."""


class AlreadyRunning(LabError): ...


class NotRunning(LabError): ...


class Unsupported(LabError): ...


class StartFailed(LabError): ...
