"""Errors of the lab. Every message is one line with advice; the command prints it and exits with the code that
`cli/exit_codes.py` has for it.

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


class Unsupported(LabError):
    def __init__(self, lack: str, remedy: str = "") -> None:
        """`remedy`: what to do about the lack, if the text does not have it."""
        super().__init__(f"{lack}: {remedy}" if remedy else lack)
        self.lack, self.remedy = lack, remedy


class StartFailed(LabError): ...
