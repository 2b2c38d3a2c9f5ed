"""Programs of BusyBox that are built in, so that they print the same on every machine."""
