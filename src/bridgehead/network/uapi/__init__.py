"""Constants of the kernel's interface to user space: one module for each header, under the header's names.

A module has what this project uses of its header, which its docstring names first. The comparison with the headers of
this machine is tests/integration/test_network_uapi.py.
"""
