"""The judge of recorded traffic: on recordings made here, and on the checkouts that `DRAGOMAN_RECORDED` names."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from recorded import content
from recorded import judge as judging
from recorded.extract import ENVIRONMENT, Exchange, checkouts, exchanges, of_file
from recorded.judge import Verdict, judge
from recorded.keys import silent_keys
from recorded.totals import PAGE, Totals, page, run

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
REPLY: Any = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 7,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
CHUNKS: list[Any] = [
    {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": choices}
    for choices in (
        [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}, "finish_reason": None}],
        [{"index": 0, "delta": {"content": "lo"}, "finish_reason": None}],
        [{"index": 0, "delta": {}, "finish_reason": "stop"}],
    )
]
STREAM = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS) + "data: [DONE]\n\n"
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
WRONG_KEY = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": None}}


def python_cassette(reply: Any, status: int = 200, host: str = "api.groq.com") -> bytes:
    """A cassette as Python's VCR writes it."""
    request = {"method": "POST", "uri": f"https://{host}/v1/chat/completions", "body": json.dumps(REQUEST)}
    response = {"status": {"code": status}, "body": {"string": reply}}
    return yaml.safe_dump({"interactions": [{"request": request, "response": response}]}).encode()


RUBY = yaml.safe_dump(
    {
        "http_interactions": [
            {
                "request": {
                    "method": "post",
                    "uri": "https://api.mistral.ai/v1/chat/completions",
                    "body": {"encoding": "UTF-8", "string": json.dumps(REQUEST)},
                },
                "response": {"status": {"code": 200}, "body": {"string": json.dumps({**REPLY, "id": "r"})}},
            }
        ]
    }
).encode()
FILES = {
    "tests/cassettes/whole.yaml": python_cassette(json.dumps(REPLY)),
    "tests/cassettes/packed.yaml": python_cassette(gzip.compress(STREAM.encode())),
    "tests/cassettes/error.yaml": python_cassette(json.dumps(WRONG_KEY), 429),
    "spec/vcr_cassettes/ruby.yml": RUBY,
    "packages/moonshotai/src/__fixtures__/text.chunks.txt": "\n".join(map(json.dumps, CHUNKS)).encode(),
    "packages/moonshotai/src/__fixtures__/text.json": json.dumps(REPLY).encode(),
    "payloads/snapshots/text/chat-completions/request.json": json.dumps(REQUEST).encode(),
    "src/cassettes/broken.yaml": b"interactions: [",
    "package.json": b"{}",
}


@pytest.fixture(params=["tree", "git"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project with one recording of each form, as a work tree or as a git directory without one."""
    tree = tmp_path / "owner+project"
    for name, data in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(data)
    if request.param == "tree":
        return tree
    git = ("git", "-C", str(tree), "-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "init.defaultBranch=main")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    return tree / ".git"


def test_every_form_of_a_recording_is_found(checkout: Path) -> None:
    found = {(e.source, e.vendor, e.dialect, e.status, e.streamed, bool(e.request)) for e in exchanges(checkout)}
    assert found == {
        ("tests/cassettes/whole.yaml", "Groq", "chat", 200, False, True),
        ("tests/cassettes/packed.yaml", "Groq", "chat", 200, True, True),
        ("tests/cassettes/error.yaml", "Groq", "chat", 429, False, True),
        ("spec/vcr_cassettes/ruby.yml", "Mistral", "chat", 200, False, True),
        ("packages/moonshotai/src/__fixtures__/text.chunks.txt", "Moonshot", "chat", 200, True, False),
        ("packages/moonshotai/src/__fixtures__/text.json", "Moonshot", "chat", 200, False, False),
        ("payloads/snapshots/text/chat-completions/request.json", "OpenAI", "chat", 200, False, True),
    }


def test_all_of_it_is_judged_and_right(checkout: Path) -> None:
    totals = run([checkout])
    assert totals.lines() == []
    kinds = ("whole", "stream", "error", "request")
    assert {kind: sum(n for (_, of), n in totals.judged.items() if of == kind) for kind in kinds} == {
        "whole": 9,
        "stream": 6,
        "error": 3,
        "request": 12,
    }
    assert totals.projects == ["owner/project"]
    assert "| Groq | 3 | 3 | 3 | 3 | 6 | 0 | 0 | 0 |" in page(totals)
    assert "| **all** | **7** | **9** | **6** | **3** | **12** | **0** | **0** | **0** |" in page(totals)


def test_a_file_with_several_streams_is_several_exchanges() -> None:
    starts: list[Any] = [{"type": "message_start", "message": {"id": name}} for name in "ab"]
    text = "\n".join(json.dumps(event) for start in starts for event in (start, {"type": "message_stop"}))
    found = of_file("packages/anthropic/src/__fixtures__/two.chunks.txt", text.encode())
    assert [exchange.reply.count(b"event: message_stop") for exchange in found] == [1, 1]


class Wrong:
    """A translation whose reply has each text twice, whose stream has other words, and whose error has no message."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.body, self.losses = inner.body, inner.losses

    def reply(self, body: bytes) -> Any:
        return self.inner.reply(body).replace(b"Let me see.", b"Let me see.Let me see.")

    def stream_machine(self) -> Any:
        return WrongMachine(self.inner.stream_machine())

    def error(self, *given: Any) -> Any:
        response = self.inner.error(*given)
        response.body = b'{"error":{"message":"?"}}'
        return response


class Unrecorded(Wrong):
    """A translation that records no loss."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.losses = ()

    def reply(self, body: bytes) -> Any:
        return self.inner.reply(body)


class WrongMachine:
    """A stream machine that writes the last fragment of a word twice."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def feed(self, data: bytes) -> Any:
        return self.inner.feed(data).replace(b'lo"', b'lolo"')

    def finish(self) -> Any:
        return self.inner.finish().replace(b'lo"', b'lolo"')

    @property
    def done(self) -> bool:
        return bool(self.inner.done)


def test_a_wrong_translation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = judging._translation
    monkeypatch.setattr(judging, "_translation", lambda *given: Wrong(inner(*given)))
    whole = Exchange("w", "Groq", "chat", reply=json.dumps(REPLY).encode())
    assert [verdict.wrong.partition(":")[0] for verdict in judge(whole)] == ["the text differs (twice)"] * 3
    stream = Exchange("s", "Groq", "chat", reply=STREAM.replace(': "', ':"').encode())
    assert [verdict.wrong.partition(":")[0] for verdict in judge(stream)] == ["the text differs"] * 3
    error = Exchange("e", "Groq", "chat", 429, reply=json.dumps(WRONG_KEY).encode())
    assert [verdict.wrong.partition(":")[0] for verdict in judge(error)] == ["the message is lost"] * 3


@pytest.mark.parametrize("at", ["", "choices/0", "choices/0/message", "choices/0/message/tool_calls/0", "usage"])
def test_a_key_that_no_one_knows_is_silent_at_every_level_unless_it_is_carried_or_recorded(at: str) -> None:
    odd = json.loads(json.dumps(REPLY))
    holder: Any = odd
    for step in at.split("/") if at else ():
        holder = holder[int(step)] if step.isdigit() else holder[step]
    holder |= {"weather": {"now": "rain"}, "empty": None}
    assert silent_keys("chat", [odd], REPLY, []) == ("weather",)
    assert silent_keys("chat", [odd], REPLY, ["dropped: weather"]) == ()
    assert silent_keys("chat", [odd], {**REPLY, "text": "rain"}, []) == ()
    verdicts = [*judge(Exchange("w", "Groq", "chat", reply=json.dumps(odd).encode()))]
    assert [(verdict.wrong, verdict.silent) for verdict in verdicts] == [("", ())] * 3


def test_a_silent_key_is_found_in_both_other_dialects(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = judging._translation
    monkeypatch.setattr(judging, "_translation", lambda *given: Unrecorded(inner(*given)))
    odd = Exchange("w", "Groq", "chat", reply=json.dumps({**REPLY, "weather": 1}).encode())
    assert {verdict.client: verdict.silent for verdict in judge(odd)} == {
        "chat": (),
        "messages": ("weather",),
        "responses": ("weather",),
    }


@pytest.mark.parametrize("whole", [True, False])
def test_what_comes_back_in_the_next_request_is_not_silent(whole: bool) -> None:
    """Gemini's signature is in an envelope until then."""
    signed = {"extra_content": {"google": {"thought_signature": "c2lnbmF0dXJl"}}}
    message = {**REPLY["choices"][0]["message"], "tool_calls": [{**CALL, **signed}], **signed}
    reply = {**REPLY, "choices": [{**REPLY["choices"][0], "message": message}]}
    delta = {**message, "tool_calls": [{"index": 0, **CALL, **signed}]}
    chunk = {**CHUNKS[0], "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}
    data = json.dumps(reply) if whole else f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
    verdicts = [*judge(Exchange("g", "Google", "chat", reply=data.encode()))]
    assert [(verdict.wrong, verdict.silent) for verdict in verdicts] == [("", ())] * 3


def test_a_cut_recording_is_refused_and_what_is_no_reply_too() -> None:
    first_chunk = STREAM.partition("\n\n")[0] + "\n\n"
    verdicts = [*judge(Exchange("s", "Groq", "chat", reply=first_chunk.encode()))]
    verdicts += judge(Exchange("h", "Groq", "chat", reply=b"<html>"))
    assert [(bool(verdict.refused), verdict.wrong) for verdict in verdicts] == [(True, "")] * 6


def test_what_a_reply_states_is_read_plainly() -> None:
    legacy = [{"choices": [{"index": 0, "delta": {"function_call": piece}}]} for piece in ({"name": "f"}, {})]
    legacy[1]["choices"][0]["delta"] = {"function_call": {"arguments": '{"a":'}}
    legacy.append({"choices": [{"index": 0, "delta": {"function_call": {"arguments": "1}"}}}]})
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in legacy).encode()
    assert content.of_stream("chat", data) == content.Content("", [("f", {"a": 1})])
    whole = {"content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]}
    started = f"data: {json.dumps({'type': 'message_start', 'message': whole})}\n\n".encode()
    assert content.of_stream("messages", started) == content.Content("", [("f", {"a": 1})])
    failed = b'data: {"type":"error","error":{"message":"busy"}}\n\n'
    assert content.of_stream("messages", failed).error == "busy"
    assert content.of_stream("responses", failed).error == "busy"


def test_the_page_and_the_readme_state_the_same_totals() -> None:
    """The page is made by hand from checkouts that are not here, so only its form can be checked."""
    text = PAGE.read_text("utf-8")
    head, _, _ = page(Totals()).partition("| vendor")
    assert text.partition("keep recordings")[0] == head.partition("keep recordings")[0]
    total = text.partition("| **all** | **")[2].partition("**")[0]
    assert f"what real servers answered. {total} of them" in text
    readme = (PAGE.parents[2] / "README.md").read_text("utf-8")
    assert f"{int(total):,} recorded" in readme


def _rows(totals: Totals) -> Iterator[str]:
    return (line for line in totals.lines() if not line.startswith("refused"))


@pytest.mark.skipif(not checkouts(), reason=f"{ENVIRONMENT} names no checkout of recorded traffic")
def test_recorded_traffic() -> None:
    totals = run(checkouts())
    assert sum(totals.exchanges.values()) > 0
    assert list(_rows(totals)) == []


def test_a_verdict_states_its_direction() -> None:
    [first, second, third] = judge(Exchange("w", "Groq", "chat", reply=json.dumps(REPLY).encode()))
    assert [first.client, second.client, third.client] == ["chat", "messages", "responses"]
    assert isinstance(first, Verdict)
