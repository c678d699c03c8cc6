"""Continue's command line, headless: `Write` and `Bash` side by side, then `Bash`."""

from __future__ import annotations

import json
from functools import partial

from real_clients.contract import KEY, Client, Outcome, Session
from real_clients.errand import COMMAND, TEXT, WRITTEN, Errand, call

_PACKAGES = ("@continuedev/cli@1.5.47",)
_PROVIDERS = {"chat": "openai", "messages": "anthropic"}
_QUIET = {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_CLI_ENABLE_TELEMETRY": "0", "CI": "1"}


def _session(dialect: str, session: Session) -> Outcome:
    errand = Errand.in_folder(session.work)
    config = {
        "name": "gateway",
        "version": "1.0.0",
        "schema": "v1",
        "models": [
            {
                "name": "gateway",
                "provider": _PROVIDERS[dialect],
                "model": session.model,
                "apiKey": KEY,
                "apiBase": f"{session.base_url}/v1/",
                "roles": ["chat"],
                "capabilities": ["tool_use"],
            }
        ],
    }
    # JSON is YAML.
    path = session.home / "config.yaml"
    path.write_text(json.dumps(config))
    write = call("Write", {"filepath": str(session.work / WRITTEN), "content": TEXT})
    other = call("Bash", {"command": "echo 東京"})
    # Its client of Messages gives each fragment to the last call, and the simulated model sends them side by side.
    first = (write,) if dialect == "messages" else (write, other)
    prompt = errand.prompt(first, call("Bash", {"command": COMMAND}))
    finished = session.run(["cn", "--config", path, "--auto", "-p", prompt], _QUIET)
    return errand.judge(finished, finished.stdout, WRITTEN)


CLIENTS = [
    Client(f"Continue, `{provider}`", dialect, "agent", "node", _PACKAGES, partial(_session, dialect))
    for dialect, provider in _PROVIDERS.items()
]
