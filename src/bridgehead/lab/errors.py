"""LabError            one line that says what to do; the command prints it and exits 1
AlreadyRunning   `up` of a lab that runs
NotRunning       anything that needs a running lab
Unsupported      this machine lacks something
StartFailed      a part did not come up; the message has its last words
"""

from __future__ import annotations


class LabError(Exception):
    """What the lab refuses or could not do."""


class AlreadyRunning(LabError): ...


class NotRunning(LabError): ...


class Unsupported(LabError): ...


class StartFailed(LabError): ...
