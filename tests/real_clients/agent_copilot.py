"""GitHub Copilot CLI with a provider of its own, headless: `create` and `bash` side by side, then `bash`."""

from __future__ import annotations

from functools import partial

from real_clients.contract import KEY, Client, Outcome, Session
from real_clients.errand import COMMAND, TEXT, WRITTEN, Errand, call

_PACKAGES = ("@github/copilot@1.0.102",)
_PROVIDERS = {
    "chat": {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "completions"},
    "messages": {"COPILOT_PROVIDER_TYPE": "anthropic"},
    "responses": {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "responses"},
}
_OPTIONS = ("--allow-all-tools", "--allow-all-paths", "--no-auto-update", "--no-color", "--silent")


def _session(dialect: str, session: Session) -> Outcome:
    errand = Errand.in_folder(session.work)
    write = call("create", {"path": str(session.work / WRITTEN), "file_text": TEXT})
    other = call("bash", {"command": "echo 東京", "description": "Say a name"})
    shell = call("bash", {"command": COMMAND, "description": "Read the word"})
    finished = session.run(
        ["copilot", *_OPTIONS, "-p", errand.prompt((write, other), shell)],
        {
            **_PROVIDERS[dialect],
            # Anthropic's SDK adds the version to the path by itself.
            "COPILOT_PROVIDER_BASE_URL": session.base_url + ("" if dialect == "messages" else "/v1"),
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_MODEL": session.model,
            "COPILOT_OFFLINE": "true",
        },
    )
    return errand.judge(finished, finished.stdout, WRITTEN)


CLIENTS = [
    Client(f"GitHub Copilot CLI, {dialect}", dialect, "agent", "node", _PACKAGES, partial(_session, dialect))
    for dialect in _PROVIDERS
]
