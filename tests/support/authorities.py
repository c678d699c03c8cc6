"""Keep the machine's certificate authorities out of this process: no test here reaches a server that they vouch for.

To load them takes 40 ms, and each client of a vendor's SDK loads them. Processes that tests start load them as usual.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

BUNDLE = 1 << 16
"""Bytes from which on a file of certificates is the machine's."""


def leave_out_authorities() -> None:
    """Load no file of the machine's authorities from here on; others are loaded."""
    load = ssl.SSLContext.load_verify_locations

    def load_given(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        if cafile is not None and Path(cafile).is_file() and Path(cafile).stat().st_size >= BUNDLE:
            cafile = None
        if cafile or capath or cadata:
            load(context, cafile, capath, cadata)

    def load_none(context: ssl.SSLContext, purpose: Any = None) -> None:
        """Load nothing in place of what the machine trusts."""

    ssl.SSLContext.load_verify_locations = load_given  # type: ignore[assignment]
    ssl.SSLContext.load_default_certs = load_none  # type: ignore[assignment]
