"""Stand-ins: small built-in servers and host programs that play images. README.md shows how one is found and loaded."""
