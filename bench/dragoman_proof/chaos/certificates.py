"""An upstream whose certificate expires, and is replaced."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dragoman_proof.chaos.gateway import becomes, gateway
from dragoman_proof.chaos.scenario import Missing, holds
from dragoman_proof.chaos.sdk import DIALECTS, failure
from dragoman_proof.chaos.setups import written
from dragoman_proof.chaos.upstream import HELD, ONCE, upstream

_FALLBACK = """
[providers.other]
dialect = "chat"
base_url = "{url}"

[[routes]]
model = "safe"
providers = ["up", "other"]
"""


async def certificate_expires(folder: Path) -> None:
    """An expired certificate ends no connection and is refused for new ones; fallbacks serve until it is replaced."""
    try:
        import trustme
    except ImportError:
        raise Missing("trustme is not installed") from None
    authority: Any = trustme.CA()
    file = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    now = datetime.now(UTC)
    good = authority.issue_cert("127.0.0.1")
    good.configure_cert(context)
    async with upstream(context) as up, upstream() as other:
        config = written(folder, up.url(), _FALLBACK.format(url=other.url()))
        async with gateway(config, variables={"SSL_CERT_FILE": str(file)}) as found:
            holds((await found.ask())[0] == 200, "a request is served")  # its connection is kept
            stream = asyncio.create_task(found.stream(HELD))
            await becomes(lambda: up.streaming == 1, "a stream is open")
            holds((await found.ask(model="m"))[0] == 200, "a second connection is kept")
            # Contexts load a later certificate for connections from then on.
            expired = authority.issue_cert("127.0.0.1", not_before=now - timedelta(9), not_after=now - timedelta(1))
            expired.configure_cert(context)
            holds((await found.ask(model=ONCE))[0] == 200, "a kept connection goes on")  # and is closed by this reply
            for dialect in DIALECTS:
                status, message = await failure(found.url, dialect)
                holds(status == 502, f"{dialect}: a new connection is refused", status, message)
                holds("certificate is not trusted: certificate has expired" in message, "the error names it", message)
            holds((await found.ask(model="safe"))[0] == 200, "a fallback serves")
            holds(len(other.requests) == 1, "the fallback was asked")
            up.go.set()
            holds((await stream).endswith("data: [DONE]\n\n"), "the open stream ends as it would")
            good.configure_cert(context)
            await found.serves()


SCENARIOS = (certificate_expires,)
