"""Files that a stand-in writes into its container, as the image has them: path in the container -> content."""

from __future__ import annotations

from typing import Final

NGINX_ROOT: Final = "/usr/share/nginx/html"
HTTPD_ROOT: Final = "/usr/local/apache2/htdocs"
_NGINX_WELCOME: Final = """\
<!DOCTYPE html>
<html>
<head>
<title>Welcome to nginx!</title>
</head>
<body>
<h1>Welcome to nginx!</h1>
<p>This page comes from Bridgehead's stand-in for nginx.</p>
</body>
</html>
"""
_HTTPD_WELCOME: Final = "<html><body><h1>It works!</h1></body></html>\n"
NGINX_FILES: Final = {f"{NGINX_ROOT}/index.html": _NGINX_WELCOME}
HTTPD_FILES: Final = {f"{HTTPD_ROOT}/index.html": _HTTPD_WELCOME}

# Programs of MetalLB's image that its init containers copy, and FRR's own start; their containers run stand-ins.
_FRR_LOG: Final = "This is Bridgehead's stand-in for FRR: the lab's own speakers have the BGP sessions"
SPEAKER_FILES: Final = dict.fromkeys(("/frr-metrics", "/frr-reloader.sh"), "#!/bin/sh\n# Bridgehead's stand-in\n")
FRR_FILES: Final = {
    "/sbin/tini": '#!/bin/sh\n[ "$1" != -- ] || shift\nexec "$@"\n',
    "/usr/lib/frr/docker-start": f'#!/bin/sh\necho "{_FRR_LOG}" >/etc/frr/frr.log\nexec sleep infinity\n',
}
