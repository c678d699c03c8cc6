"""Multipart forms written by hand."""

from __future__ import annotations

BOUNDARY = "----a-boundary"


def part(name: str, content: bytes, *, filename: str = "", extra: str = "") -> bytes:
    """One part of a form, with the boundary before it."""
    named = f'; filename="{filename}"' if filename else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n{extra}\r\n'
    return head.encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    """A whole form."""
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


FORM_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
