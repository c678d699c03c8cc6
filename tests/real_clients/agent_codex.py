"""Codex, headless, in the three shapes that the model's name chooses: functions, a free-text patch, one free-text tool.

The names of the vendor's models only choose the shape: the gateway sends them all to the same simulated model.
"""

from __future__ import annotations

import json
import sys
from base64 import urlsafe_b64encode
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from real_clients.contract import KEY, Client, Finished, Outcome, Session
from real_clients.errand import (
    COMMAND,
    CUT_MODEL,
    FAILING_MODEL,
    FULL_MODEL,
    MADE,
    MODEL,
    NOTED,
    NOTES_TOOL,
    PICTURE,
    SEEN,
    SILENT_MODEL,
    TEXT,
    WRITTEN,
    Errand,
    call,
)

_PACKAGES = ("@openai/codex@0.171.0",)
_APP_SERVER = Path(__file__).parent / "scripts/codex_app_server.py"
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
_CHATGPT = f"""\
model = "{MODEL}"
check_for_update_on_startup = false
openai_base_url = "{{base_url}}/v1"
chatgpt_base_url = "{{base_url}}/backend-api"
[analytics]
enabled = false
"""
_WEBSOCKET = "supports_websockets = true\n"
_IMPATIENT = "stream_idle_timeout_ms = 1500\nrequest_max_retries = 0\nstream_max_retries = 0\n"
"""Less patience than the pauses of `SILENT_MODEL` need."""
_HEARTBEAT = 0.3
_SHELL = call("exec_command", {"cmd": COMMAND})


def _functions(model: str, session: Session) -> Outcome:
    other = call("exec_command", {"cmd": "echo 東京"})
    return _codex(session, model, (other, other), _SHELL)


def _patch(session: Session) -> Outcome:
    return _codex(session, "gpt-5.5", call("apply_patch", _PATCH), _SHELL, files=(WRITTEN,))


def _lite(session: Session) -> Outcome:
    return _codex(session, "gpt-6-sol", call("exec", _script(COMMAND)))


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


def _provider_option(model: str, option: str, session: Session) -> Outcome:
    """With `_WEBSOCKET` it keeps one WebSocket: a warm-up, then turns with the new items only."""
    errand = Errand.in_folder(session.work)
    finished, text = _run(session, model, errand.prompt(_SHELL), config=option)
    return errand.judge(finished, text)


def _listed(session: Session) -> Outcome:
    """It takes the gateway's list of models for its catalogue."""
    option = f'model_catalog_url = "{session.base_url}/v1/models"\n'
    outcome = _provider_option(MODEL, option, session)
    kept = session.home / ".codex" / "models_cache.json"
    entries = json.loads(kept.read_text("utf-8"))["models"] if kept.is_file() else []
    if MODEL not in [entry["slug"] for entry in entries]:
        return replace(outcome, ok=False, note=f"{MODEL} is not in its catalogue of {len(entries)} models")
    return outcome


def _compressed(session: Session) -> Outcome:
    """With a login of ChatGPT, here a made one, it compresses its requests with zstd."""
    errand = Errand.in_folder(session.work)
    home, last = session.home / ".codex", session.home / "last.txt"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(_CHATGPT.format(base_url=session.base_url))
    (home / "auth.json").write_text(json.dumps(_login()))
    options = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-o", last)
    finished = session.run(["codex", "exec", *options, "-"], _surroundings(home), stdin=errand.prompt(_SHELL))
    return errand.judge(finished, last.read_text() if last.is_file() else finished.stdout)


def _login() -> dict[str, Any]:
    """A login that ends in the year 2100, of no account."""
    account = {"chatgpt_account_id": "account", "chatgpt_user_id": "user", "chatgpt_plan_type": "pro"}
    claims = {"exp": 4_102_444_800, "sub": "user", "https://api.openai.com/auth": account}
    parts = ({"alg": "none", "typ": "JWT"}, claims, "signature")
    token = ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    tokens = {"id_token": token, "access_token": token, "refresh_token": "none", "account_id": "account"}
    return {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": "2099-12-31T00:00:00Z"}


def _failing(option: str, session: Session) -> Outcome:
    """The second turn must end with the upstream's reason, and end at all."""
    errand = Errand.in_folder(session.work)
    before = errand.judge(*_run(session, MODEL, errand.prompt(_SHELL), config=option))
    finished, _ = _run(session, FAILING_MODEL, "And now?", "resume", "--last", config=option)
    return errand.judge_end(before, finished, "Selected model is at capacity")


def _sub_agents(session: Session) -> Outcome:
    """One agent starts another, which runs the command, waits for it and reads what it left."""
    errand = Errand.in_folder(session.work)
    # The plan of the other agent stands in that of the first as JSON, whose brackets must not look like its own.
    task = json.dumps(errand.prompt(call("exec", _script(COMMAND)))).replace("[[", r"\u005b[")
    plan = errand.prompt(
        f'spawn_agent {{"task_name": "other", "message": {task}}}',
        call("wait_agent", {"timeout_ms": 60_000}),
        call("exec", _script(f"cat {MADE}")),
    )
    finished, text = _run(session, "gpt-5.6-sol", plan)
    return errand.judge(finished, text)


def _app_server(session: Session) -> Outcome:
    """A scheduled task starts a turn of the app server, and the user the next one."""
    errand = Errand.in_folder(session.work)
    task, again = errand.prompt(_SHELL), errand.prompt(call("exec_command", {"cmd": f"cat {MADE}"}))
    home = _home(session, MODEL, "")
    turns = ("task", "heartbeat", task, "say", again)
    finished = session.run([sys.executable, "-I", str(_APP_SERVER), *turns], _surroundings(home))
    texts = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith('"')]
    if len(texts) != 2 or not all(errand.word in text for text in texts):
        return errand.judge(finished, "", words=(errand.word,))
    return errand.judge(finished, texts[-1])


def _script(command: str) -> str:
    return f"const done = await tools.exec_command({{cmd: {command!r}}});\ntext(done.output);\n"


def _codex(session: Session, model: str, *rounds: str | tuple[str, ...], files: tuple[str, ...] = ()) -> Outcome:
    errand = Errand.in_folder(session.work)
    finished, text = _run(session, model, errand.prompt(*rounds))
    return errand.judge(finished, text, *files)


def _run(session: Session, model: str, prompt: str, *words: str, config: str = "") -> tuple[Finished, str]:
    """The process and the last thing the agent stated."""
    home, last = _home(session, model, config), session.home / "last.txt"
    last.unlink(missing_ok=True)
    options = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-o", last)
    finished = session.run(["codex", "exec", *words, *options, "-"], _surroundings(home), stdin=prompt)
    return finished, last.read_text() if last.is_file() else finished.stdout


def _home(session: Session, model: str, config: str) -> Path:
    """The folder of its configuration, which is written."""
    home = session.home / ".codex"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(_CONFIG.format(model=model, base_url=session.base_url) + config)
    return home


def _surroundings(home: Path) -> dict[str, str]:
    return {"CODEX_HOME": str(home), "GATEWAY_KEY": KEY}


CLIENTS = [
    Client("Codex", "responses", "agent", "node", _PACKAGES, partial(_functions, MODEL)),
    Client("Codex: a stream is cut", "responses", "agent", "node", _PACKAGES, partial(_functions, CUT_MODEL)),
    Client("Codex, `apply_patch`", "responses", "agent", "node", _PACKAGES, _patch),
    Client("Codex, `exec`", "responses", "agent", "node", _PACKAGES, _lite),
    Client("Codex: the context is full", "responses", "agent", "node", _PACKAGES, _overflow),
    Client("Codex: the upstream fails", "responses", "agent", "node", _PACKAGES, partial(_failing, "")),
    Client(
        "Codex: the upstream is silent",
        "responses",
        "agent",
        "node",
        _PACKAGES,
        partial(_provider_option, SILENT_MODEL, _IMPATIENT),
        heartbeat=_HEARTBEAT,
    ),
    Client(
        "Codex: WebSocket first",
        "responses",
        "agent",
        "node",
        _PACKAGES,
        partial(_provider_option, MODEL, _WEBSOCKET),
    ),
    Client(
        "Codex: WebSocket, a stream is cut",
        "responses",
        "agent",
        "node",
        _PACKAGES,
        partial(_provider_option, CUT_MODEL, _WEBSOCKET),
    ),
    Client(
        "Codex: WebSocket, the upstream fails", "responses", "agent", "node", _PACKAGES, partial(_failing, _WEBSOCKET)
    ),
    Client(
        "Codex: WebSocket, the upstream is silent",
        "responses",
        "agent",
        "node",
        _PACKAGES,
        partial(_provider_option, SILENT_MODEL, _WEBSOCKET + _IMPATIENT),
        heartbeat=_HEARTBEAT,
    ),
    Client("Codex: the gateway's list of models", "responses", "agent", "node", _PACKAGES, _listed),
    Client("Codex: a ChatGPT login, compressed", "responses", "agent", "node", _PACKAGES, _compressed, websocket=False),
    Client("Codex: sub-agents", "responses", "agent", "node", _PACKAGES, _sub_agents),
    Client("Codex: app server, a scheduled task", "responses", "agent", "node", _PACKAGES, _app_server),
    Client("Codex: picture, MCP tool, second prompt", "responses", "agent", "node", _PACKAGES, _more),
]
