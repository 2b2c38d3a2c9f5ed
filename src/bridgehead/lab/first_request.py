"""The program that waits for the first request to a lab's puller: `python -I -S first_request.py ARGUMENT...`

A lab that pulls nothing has only this process beside it. An interpreter that loads nothing else has 3 MiB of its own; a
fork of `up` would have 20. The program of the puller, `ARGUMENT...`, replaces it when a node of the lab connects.
Imports only modules that the interpreter has at its start, or built in.
"""

import os
import select
import sys

LAB, LISTENER = 3, 4  # the pidfd of the lab's first process, and the socket that the nodes connect to


def main() -> None:
    with open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write("bridgehead-pull")
    if LAB not in select.select([LAB, LISTENER], [], [])[0]:
        os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
