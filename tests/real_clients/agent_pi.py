"""pi with a provider of its own, headless: `write` and `bash` side by side, a picture, then `bash`."""

from __future__ import annotations

import json
from functools import partial

from real_clients.contract import KEY, Client, Outcome, Session
from real_clients.errand import COMMAND, PICTURE, SEEN, TEXT, WRITTEN, Errand, call

_PACKAGES = ("@earendil-works/pi-coding-agent@1.5.2",)
_APIS = {"chat": "openai-completions", "messages": "anthropic-messages", "responses": "openai-responses"}
_OPTIONS = ("--offline", "--no-session", "--provider", "gateway", "--thinking", "high")


def _session(dialect: str, session: Session) -> Outcome:
    errand = Errand.in_folder(session.work)
    folder = session.home / ".pi/agent"
    folder.mkdir(parents=True)
    (folder / "models.json").write_text(json.dumps({"providers": {"gateway": _provider(dialect, session)}}))
    write = call("write", {"path": str(session.work / WRITTEN), "content": TEXT})
    other = call("bash", {"command": "echo 東京"})
    picture = call("read", {"path": str(session.work / PICTURE)})
    # Its client of Responses gives each fragment to the last call, and the simulated model sends them side by side.
    first = (write,) if dialect == "responses" else (write, other)
    prompt = errand.prompt(first, picture, call("bash", {"command": COMMAND}))
    finished = session.run(["pi", *_OPTIONS, "--model", session.model, "-p", prompt])
    return errand.judge(finished, finished.stdout, WRITTEN, words=(errand.word, SEEN))


def _provider(dialect: str, session: Session) -> dict[str, object]:
    model = {
        "id": session.model,
        "reasoning": True,
        "input": ["text", "image"],
        "contextWindow": 200_000,
        "maxTokens": 32_000,
    }
    url = session.base_url + ("" if dialect == "messages" else "/v1")
    return {"baseUrl": url, "api": _APIS[dialect], "apiKey": KEY, "models": [model]}


CLIENTS = [
    Client(f"pi, {api}", dialect, "agent", "node", _PACKAGES, partial(_session, dialect))
    for dialect, api in _APIS.items()
]
