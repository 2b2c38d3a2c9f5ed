"""The preparation of a process for forks. Each test runs it in a new process, because it cannot be undone."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import ctypes, gc, json, sys
from bridgehead.kubelet.runtimes.spawn import forking

def free_below_top():
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        return None
    read = ctypes.CDLL(None).mallinfo2
    read.restype = forking._MallocInfo
    info = read()
    return info.fordblks - info.keepcost

def neighbours():
    # How many of a hundred new objects lie beside the one that was made before them.
    made = [bytes(70) for _ in range(100)]
    return sum(id(b) - id(a) == 112 for a, b in zip(made, made[1:]))

full = [[bytes(size) for size in range(1, 2000, 3)] for _ in range(40)]
holes = [row[::2] for row in full]
del full
before = free_below_top()

class Looked: pass

name = sys.intern("a name " + "of its own")
getattr(Looked, name, None)
references = sys.getrefcount(name)
objects = [["a list"], {"a": "dictionary"}, Looked, free_below_top, free_below_top.__code__, name]
forking.prepare_to_fork()

def counted(one):
    before = sys.getrefcount(one)
    references = [one] * 10
    return sys.getrefcount(one) - before

print(json.dumps({"counted": [counted(one) for one in objects], "new": counted(["another list"]),
                  "before": before, "after": free_below_top(), "neighbours": neighbours(),
                  "forgotten": references - sys.getrefcount(name),
                  "frozen": gc.get_freeze_count() > 1000}))
"""


def test_a_fork_of_a_prepared_process_writes_to_few_pages():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100, check=True)
    result = json.loads(done.stdout)
    assert result["frozen"]
    if sys.version_info >= (3, 12):  # it has immortal objects
        assert result["counted"] == [0] * 6
    else:
        assert result["counted"] == [10] * 6
        assert result["forgotten"] > 0
    assert result["new"] == 10
    assert result["neighbours"] > 90
    if result["before"] is not None:
        assert result["before"] > 500_000
        assert result["after"] < 100_000
