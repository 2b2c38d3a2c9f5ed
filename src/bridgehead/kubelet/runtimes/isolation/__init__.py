"""Isolation of a container from its node: root file system, cgroup, capabilities, user and seccomp filter."""
