"""Qwen Code, headless: `write_file` and `run_shell_command` side by side, then the shell once more."""

from __future__ import annotations

import json

from real_clients.contract import KEY, Client, Outcome, Session
from real_clients.errand import COMMAND, TEXT, WRITTEN, Errand, call

_SETTINGS = {
    "security": {"auth": {"selectedType": "openai"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
}
# It knows no NO_PROXY, and would ask the dead proxy for the gateway as well.
_NO_PROXY = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), "")


def _session(session: Session) -> Outcome:
    errand = Errand.in_folder(session.work)
    folder = session.home / ".qwen"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(_SETTINGS))
    write = call("write_file", {"file_path": str(session.work / WRITTEN), "content": TEXT})
    other = call("run_shell_command", {"command": "echo 東京", "is_background": False})
    shell = call("run_shell_command", {"command": COMMAND, "is_background": False})
    finished = session.run(
        ["qwen", "--yolo", "-p", errand.prompt((write, other), shell)],
        {
            "OPENAI_BASE_URL": f"{session.base_url}/v1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_MODEL": session.model,
            **_NO_PROXY,
        },
    )
    return errand.judge(finished, finished.stdout, WRITTEN)


CLIENTS = [Client("Qwen Code", "chat", "agent", "node", ("@qwen-code/qwen-code@0.24.4",), _session)]
