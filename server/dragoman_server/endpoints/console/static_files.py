"""The files of the page, read once, and their headers. They need no key, as they hold nothing of a configuration."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from aiohttp import web

FOLDER = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""Types by the end of a file's name; other files are not served."""
PAGE = "index.html"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""No inline script or style, no request to another host, no frame around the page, and no HTML made from text."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Headers of all files. With `no-cache` a browser asks whether its copy is current."""


class StaticFiles:
    """The files in `FOLDER`, by name."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for path in sorted(FOLDER.iterdir()):
            if path.suffix in TYPES:
                content = path.read_bytes()
                self._files[path.name] = content, TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"'

    async def get(self, request: web.Request) -> web.Response:
        """Return the file that the path names; the page itself without a name."""
        found = self._files.get(request.match_info.get("name") or PAGE)
        if found is None:
            return web.Response(status=404, text="there is no such file; the console is at /ui/\n", headers=HEADERS)
        content, content_type, tag = found
        headers = {**HEADERS, "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=content, content_type=content_type, charset="utf-8", headers=headers)

    async def redirect(self, request: web.Request) -> web.Response:
        """Redirect `/ui` to `/ui/`, below which the page's relative links work."""
        # Relative, as a proxy may serve the gateway below another path.
        return web.Response(status=308, headers={**HEADERS, "location": f"{request.path.rpartition('/')[2]}/"})
