"""nginx as a reverse proxy without buffering, which is in front of most gateways in production."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from dragoman_bench.gateways.gateway import SAME, Direction, Kind, Started
from dragoman_bench.gateways.launch import free_port, launch

_CONFIG = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr crit;
events { worker_connections 30000; }
http {
  access_log off;
  tcp_nodelay on;
  client_max_body_size 64m;
  client_body_buffer_size 4m;
  keepalive_requests 1000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream model { server ADDRESS; keepalive 1024; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:PORT backlog=4096;
    location / {
      proxy_pass http://model;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 300s;
    }
  }
}
"""


@dataclass(frozen=True, slots=True)
class Nginx:
    """One worker, no buffering, kept-alive connections to the upstream."""

    name: str = "nginx"
    kind: Kind = "pass"
    directions: frozenset[Direction] = SAME
    about: str = "nginx as an unbuffered reverse proxy, one worker"
    note: str = ""
    without: Mapping[str, str] = field(default_factory=dict)

    def missing(self) -> str | None:
        """Return advice if it is not installed, else None."""
        return None if _path() else "nginx is not installed: `apt install nginx-light`, or your system's package"

    def version(self) -> str:
        """Return the version that `nginx -v` prints."""
        path = _path()
        if path is None:
            return ""
        output = subprocess.run([path, "-v"], capture_output=True, text=True, check=False, timeout=10).stderr
        found = re.search(r"nginx/(\S+)", output)
        return found[1] if found else ""

    async def start(self, upstream_url: str, direction: Direction, core: int | None) -> Started:
        """Start it with its own configuration, independent of the system's. Raises StartError."""
        port = free_port()
        config = _CONFIG.replace("ADDRESS", urlsplit(upstream_url).netloc).replace("PORT", str(port))
        command = [_path() or "nginx", "-p", "{folder}", "-c", "{folder}/nginx.conf"]
        return await launch(command, port, core, files={"nginx.conf": config})


def _path() -> str | None:
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
