"""The kernel's network objects: `syscalls` namespaces and mounts, `links` rtnetlink. Nobody else speaks netlink."""
