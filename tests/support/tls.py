"""Certificates of a private authority, made when first asked for."""

from __future__ import annotations

import ssl
from functools import cache

import trustme


@cache
def authority(name: str = "good") -> trustme.CA:
    """A certificate authority that no one trusts but who is reported to."""
    return trustme.CA(organization_name=name)


def serving(*names: str, by: str = "good") -> ssl.SSLContext:
    """A server's context with a certificate for these host names and addresses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    authority(by).issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    return context


def trusting(*authorities: str) -> ssl.SSLContext:
    """A client's context that verifies as Python's default one does, and trusts these authorities only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    for name in authorities:
        authority(name).configure_trust(context)
    return context
