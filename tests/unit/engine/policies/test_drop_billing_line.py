"""T-80: Claude Code's billing line changes with each request, and only Anthropic reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects.directions import direction
from dragoman.knobs import Knobs
from dragoman.losses import LossCode
from dragoman.profiles.profile import BUILTIN_PROFILES, builtin_profile
from dragoman.translate_request import Translation, translate
from support.paths import FIXTURES

REQUESTS = sorted(FIXTURES.glob("claude-code_tool*_1.json"))
LINE = "x-anthropic-billing-header: cc_version=2.1.329.715; cc_entrypoint=sdk-cli;"
PROFILES = [(dialect, name) for dialect, name in BUILTIN_PROFILES]


def asked(upstream: str, profile: str, system: Any, **knobs: Any) -> Translation:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": LINE}]}
    if system is not None:
        body["system"] = system
    row = direction("messages", upstream)
    return translate(row, json.dumps(body).encode(), profile=builtin_profile(upstream, profile), knobs=Knobs(**knobs))


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(("upstream", "profile"), PROFILES)
@pytest.mark.parametrize("fixture", REQUESTS, ids=lambda path: path.stem)
def test_the_recorded_line_reaches_those_who_read_it_only(fixture: Path, upstream: str, profile: str) -> None:
    body = json.loads(fixture.read_text())["request"]["body"]
    assert body["system"][0]["text"].startswith("x-anthropic-billing-header:")
    sent = translate(
        direction("messages", upstream), json.dumps(body).encode(), profile=builtin_profile(upstream, profile)
    )
    reads = builtin_profile(upstream, profile).billing_line
    assert reads == (b"x-anthropic-billing-header" in sent.body)
    assert reads == ("request_noise" not in sent.losses.header())
    assert body["system"][1]["text"][:40].encode() in sent.body


def test_who_reads_it() -> None:
    readers = {name for dialect, name in PROFILES if builtin_profile(dialect, name).billing_line}
    assert "anthropic" in readers
    assert not readers & {"openai", "compatible", "vllm", "ollama", "deepseek"}


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
@pytest.mark.parametrize(
    ("system", "rest"),
    [
        ([text(LINE), text("Be brief.")], ["Be brief."]),
        ([text(LINE)], []),
        (LINE, []),
        (f"{LINE}\n\nBe brief.", ["Be brief."]),
        ([text(f"{LINE}\nBe brief."), text("And kind.")], ["Be brief.", "And kind."]),
    ],
)
def test_what_stands_below_it_stays(upstream: str, system: Any, rest: list[str]) -> None:
    sent = asked(upstream, "compatible", system)
    assert [row.code for row in sent.losses.rows].count(LossCode.REQUEST_NOISE) == 1
    body = json.loads(sent.body)
    head = body.pop("instructions", None) or body.pop("system", None)
    stated = json.dumps([head, [m for m in body.get("messages", body.get("input")) if m.get("role") != "user"]])
    assert "billing" not in stated
    for words in rest:
        assert words in stated
    if not rest:
        assert head is None
        assert "system" not in stated
    # What the user states is the user's.
    assert LINE in sent.body.decode()


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
@pytest.mark.parametrize("system", [None, "Be brief.", [text("Be brief."), text(LINE)], []])
def test_nothing_else_is_taken_for_it(upstream: str, system: Any) -> None:
    sent = asked(upstream, "compatible", system)
    assert "request_noise" not in sent.losses.header()


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_it_can_be_kept(upstream: str) -> None:
    sent = asked(upstream, "compatible", [text(LINE), text("Be brief.")], request_noise="keep")
    assert LINE.encode() in sent.body
    assert "request_noise" not in sent.losses.header()


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_two_requests_that_differ_in_it_are_one_prompt(upstream: str) -> None:
    first, second = (
        asked(upstream, "compatible", [text(LINE.replace("715", stamp)), text("Be brief.")]).body.replace(
            LINE.encode(), b""
        )
        for stamp in ("715", "6a8")
    )
    assert first == second


def test_a_passed_through_body_is_else_as_it_came() -> None:
    body = {"model": "m", "system": [text(LINE), text("Be brief.")], "max_tokens": 9, "x": {"ü": 1.0}, "messages": []}
    sent = translate(
        direction("messages", "messages"), json.dumps(body).encode(), profile=builtin_profile("messages", "compatible")
    )
    assert json.loads(sent.body) == {**body, "system": [text("Be brief.")]}
    assert body["system"] == [text(LINE), text("Be brief.")]
