"""Stand-ins: small built-in servers and host programs that play the images which tutorials use."""
