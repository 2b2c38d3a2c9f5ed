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
forking.prepare_to_fork()
print(json.dumps({"before": before, "after": free_below_top(), "neighbours": neighbours(),
                  "remembered": references, "forgotten": references - sys.getrefcount(name),
                  "frozen": gc.get_freeze_count() > 1000}))
"""


# The references of an object that lives for good, since Python 3.12.
IMMORTAL = 1 << 29


def test_gaps_are_filled_and_the_method_cache_is_cleared_before_a_fork():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100, check=True)
    result = json.loads(done.stdout)
    assert result["frozen"]
    assert result["forgotten"] > 0 or result["remembered"] >= IMMORTAL
    assert result["neighbours"] > 90
    if result["before"] is not None:
        assert result["before"] > 500_000
        assert result["after"] < 100_000
