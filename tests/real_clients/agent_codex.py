"""Codex, headless, in the three shapes that the model's name chooses: functions, a free-text patch, one free-text tool.

The names of the vendor's models only choose the shape: the gateway sends them all to the same simulated model.
"""

from __future__ import annotations

import json
from functools import partial

from real_clients.contract import KEY, Client, Finished, Outcome, Session
from real_clients.errand import (
    COMMAND,
    CUT_MODEL,
    FULL_MODEL,
    MODEL,
    NOTED,
    NOTES_TOOL,
    PICTURE,
    SEEN,
    TEXT,
    WRITTEN,
    Errand,
    call,
)

_PACKAGES = ("@openai/codex@0.169.0",)
_PATCH = f"*** Begin Patch\n*** Add File: {WRITTEN}\n+{TEXT}\n*** End Patch\n"
_CONFIG = """\
model = "{model}"
model_provider = "gateway"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.gateway]
name = "gateway"
base_url = "{base_url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
"""
_SHELL = call("exec_command", {"cmd": COMMAND})


def _functions(model: str, session: Session) -> Outcome:
    other = call("exec_command", {"cmd": "echo 東京"})
    return _codex(session, model, (other, other), _SHELL)


def _patch(session: Session) -> Outcome:
    return _codex(session, "gpt-5.5", call("apply_patch", _PATCH), _SHELL, files=(WRITTEN,))


def _lite(session: Session) -> Outcome:
    script = f"const done = await tools.exec_command({{cmd: {COMMAND!r}}});\ntext(done.output);\n"
    return _codex(session, "gpt-6-sol", call("exec", script))


def _more(session: Session) -> Outcome:
    """A picture is looked at and a tool of an MCP server used; then a second prompt in the same session."""
    errand = Errand.in_folder(session.work)
    command, *words = errand.notes_server()
    server = f"[mcp_servers.notes]\ncommand = {json.dumps(command)}\nargs = {json.dumps(words)}\n"
    picture = call("view_image", {"path": str(session.work / PICTURE)})
    plan = errand.prompt(picture, call(NOTES_TOOL, {"text": TEXT}))
    first, text = _run(session, MODEL, plan, config=server)
    if errand.note not in text:
        return errand.judge(first, text, words=(errand.note, SEEN))
    second, text = _run(session, MODEL, errand.prompt(_SHELL), "resume", "--last", config=server)
    return errand.judge(second, text, NOTED, words=(errand.word, SEEN))


def _overflow(session: Session) -> Outcome:
    errand = Errand.in_folder(session.work)
    before = errand.judge(*_run(session, MODEL, errand.prompt(_SHELL)))
    finished, _ = _run(session, FULL_MODEL, "And now?", "resume", "--last")
    return errand.judge_end(before, finished, "ran out of room in the model's context window")


def _websocket(session: Session) -> Outcome:
    """It keeps one WebSocket: a warm-up, then turns with the new items only."""
    errand = Errand.in_folder(session.work)
    finished, text = _run(session, MODEL, errand.prompt(_SHELL), config="supports_websockets = true\n")
    return errand.judge(finished, text)


def _codex(session: Session, model: str, *rounds: str | tuple[str, ...], files: tuple[str, ...] = ()) -> Outcome:
    errand = Errand.in_folder(session.work)
    finished, text = _run(session, model, errand.prompt(*rounds))
    return errand.judge(finished, text, *files)


def _run(session: Session, model: str, prompt: str, *words: str, config: str = "") -> tuple[Finished, str]:
    """The process and the last thing the agent said."""
    home, last = session.home / ".codex", session.home / "last.txt"
    home.mkdir(exist_ok=True)
    last.unlink(missing_ok=True)
    (home / "config.toml").write_text(_CONFIG.format(model=model, base_url=session.base_url) + config)
    options = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-o", last)
    finished = session.run(
        ["codex", "exec", *words, *options, "-"], {"CODEX_HOME": str(home), "GATEWAY_KEY": KEY}, stdin=prompt
    )
    return finished, last.read_text() if last.is_file() else finished.stdout


CLIENTS = [
    Client("Codex", "responses", "agent", "node", _PACKAGES, partial(_functions, MODEL)),
    Client("Codex: a stream is cut", "responses", "agent", "node", _PACKAGES, partial(_functions, CUT_MODEL)),
    Client("Codex, `apply_patch`", "responses", "agent", "node", _PACKAGES, _patch),
    Client("Codex, `exec`", "responses", "agent", "node", _PACKAGES, _lite),
    Client("Codex: the context is full", "responses", "agent", "node", _PACKAGES, _overflow),
    Client("Codex: WebSocket first", "responses", "agent", "node", _PACKAGES, _websocket),
    Client("Codex: picture, MCP tool, second prompt", "responses", "agent", "node", _PACKAGES, _more),
]
