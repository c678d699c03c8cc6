"""opencode, headless, with each of the AI SDK's providers it bundles: `write` and `bash`
side by side, a picture, a tool of an MCP server, then `bash`."""

from __future__ import annotations

import json
from functools import partial

from real_clients.contract import KEY, Client, Finished, Outcome, Session
from real_clients.errand import COMMAND, CUT_MODEL, MODEL, NOTED, NOTES_TOOL, PICTURE, SEEN, TEXT, WRITTEN, Errand, call

_PACKAGES = ("opencode-ai@1.18.33",)
_PROVIDERS = {
    "chat": "@ai-sdk/openai-compatible",
    "messages": "@ai-sdk/anthropic",
    "responses": "@ai-sdk/openai",
}
_SHELL = call("bash", {"command": COMMAND, "description": "Read the word"})
_SEES = {"input": ["text", "image"], "output": ["text"]}
_QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
}
_PATCH = f"*** Begin Patch\n*** Add File: {WRITTEN}\n+{TEXT}\n*** End Patch"


def _session(dialect: str, session: Session) -> Outcome:
    errand = Errand.in_folder(session.work)
    # In Responses it sends reasoning back only for names it knows; the gateway sends any name to the same model.
    model = "gpt-5.5" if dialect == "responses" else MODEL
    write = call("write", {"filePath": str(session.work / WRITTEN), "content": TEXT})
    if dialect == "responses":  # The model's name changes the tools, too.
        write = call("apply_patch", _PATCH)
    other = call("bash", {"command": "echo 東京", "description": "Say a name"})
    picture = call("read", {"filePath": str(session.work / PICTURE)})
    note = call(f"notes_{NOTES_TOOL}", {"text": TEXT})
    finished = _opencode(dialect, model, session, errand, errand.prompt((write, other), picture, note, _SHELL))
    return errand.judge(finished, _last_text(finished), WRITTEN, NOTED, words=(errand.word, errand.note, SEEN))


def _cut(dialect: str, session: Session) -> Outcome:
    errand = Errand.in_folder(session.work)
    finished = _opencode(dialect, CUT_MODEL, session, errand, errand.prompt(_SHELL))
    return errand.judge(finished, _last_text(finished))


def _opencode(dialect: str, model: str, session: Session, errand: Errand, prompt: str) -> Finished:
    (session.work / "opencode.json").write_text(json.dumps(_config(dialect, model, session, errand)))
    program = next((session.prefix / "node_modules").glob("opencode-*/bin/opencode"))
    options = ("--format", "json", "--variant", "high", "--model", f"gateway/{model}")
    # As an argument the prompt would come in quotes.
    return session.run([program, "run", *options], _QUIET, stdin=prompt)


def _config(dialect: str, model: str, session: Session, errand: Errand) -> dict[str, object]:
    limit = {"context": 200_000, "output": 8192}
    can = {"reasoning": True, "attachment": True, "tool_call": True}
    return {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"edit": "allow", "bash": "allow"},
        "mcp": {"notes": {"type": "local", "command": errand.notes_server(), "enabled": True}},
        "provider": {
            "gateway": {
                "npm": _PROVIDERS[dialect],
                "name": "gateway",
                "options": {"baseURL": f"{session.base_url}/v1", "apiKey": KEY},
                "models": {model: {"name": model, "limit": limit, "modalities": _SEES, **can}},
            }
        },
    }


def _last_text(finished: Finished) -> str:
    """The last text part of the events, which come one a line."""
    texts = []
    for line in finished.stdout.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            if event.get("type") == "text":
                texts.append(str(event["part"]["text"]))
    return texts[-1] if texts else finished.stdout


CLIENTS = [
    Client(f"opencode, `{package}`{what}", dialect, "agent", "node", _PACKAGES, partial(session, dialect))
    for dialect, package in _PROVIDERS.items()
    for what, session in (("", _session), (": a stream is cut", _cut))
]
