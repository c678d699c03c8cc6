"""The command line tool `llm`, with a tool given as Python code; streamed, whole, and with an upstream that fails."""

from __future__ import annotations

import json

from real_clients.contract import Client, Finished, Outcome, Session

PACKAGES = ("llm==0.36", "openai==3.57.0")
_MODELS = {"thinks": "sim-thinking", "limited": "sim-error-429-quota", "broken": "sim-error-mid"}
_TOOL = '''
def find_word(topic: str) -> str:
    """The secret word of a topic."""
    import pathlib, secrets
    word = secrets.token_hex(6)
    pathlib.Path("word").write_text(word)
    return f"the word is {word}"
'''


def _session(session: Session) -> Outcome:
    _configure(session)
    word = session.work / "word"
    problems: list[str] = []
    stated = ""
    for mode in ([], ["--no-stream"]):
        word.unlink(missing_ok=True)
        finished = _ask(session, "thinks", "--functions", _TOOL, "--usage", *mode)
        stated = stated or finished.stdout
        found = word.read_text() if word.exists() else ""
        problems += _loop_problems(finished, found, " ".join(mode) or "streamed")
    for step, wanted in (("limited", "429"), ("broken", "overloaded")):
        failed = _ask(session, step)
        if failed.returncode == 0 or wanted not in failed.stderr.lower():
            problems.append(f"{step}: exit status {failed.returncode}, {failed.stderr[-300:]!r}")
    return Outcome(not problems, word.exists(), stated.strip(), "; ".join(problems))


def _configure(session: Session) -> None:
    """Models of its own (clients are added in this file only) and an empty log."""
    entries = [
        {
            "model_id": name,
            "model_name": model,
            "api_base": f"{session.base_url}/v1",
            "api_key_name": "openai",
            "supports_tools": True,
        }
        for name, model in _MODELS.items()
    ]
    # JSON is YAML.
    (session.home / "extra-openai-models.yaml").write_text(json.dumps(entries))


def _ask(session: Session, model: str, *options: str) -> Finished:
    argv = [str(session.prefix / "bin/llm"), "prompt", "-m", model, "--no-log", *options, "Which word is it?"]
    return session.run(argv, {"LLM_USER_PATH": str(session.home)}, timeout=60)


def _loop_problems(finished: Finished, word: str, mode: str) -> list[str]:
    if finished.returncode != 0:
        return [f"{mode}: exit status {finished.returncode}, {finished.stderr[-300:]!r}"]
    problems = []
    if not word or word not in finished.stdout:
        problems.append(f"{mode}: the word {word!r} is not in {finished.stdout!r}")
    if "Token usage: " not in finished.stderr or "Token usage: 0" in finished.stderr:
        problems.append(f"{mode}: no usage in {finished.stderr!r}")
    return problems


CLIENTS: list[Client] = [Client("llm", "chat", "framework", "python", PACKAGES, _session)]
