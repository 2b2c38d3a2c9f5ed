"""WordPress and MySQL for tests: images of Debian packages, and a client of the site."""
