"""What `make bench` measures. Each module has `run()`, which returns rows (what, value) for the table."""
