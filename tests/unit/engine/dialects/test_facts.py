"""The facts about dialects: they agree with each other, with the codecs, and with what the streams really have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman.dialects import CLIENT_DIALECTS, DEFAULT_DIALECT, FACTS, STORED_DIALECT, Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.facts import Target
from dragoman.dialects.responses.stream.keepalive import keepalive_frame
from dragoman.errors import ClientRequestError
from dragoman.wire.sse import COMMENT
from dragoman.wire.sse_parser import Parser
from support.paths import TRANSCRIPTS

EACH = pytest.mark.parametrize("dialect", Dialect)


@EACH
def test_a_dialect_has_its_facts_by_name_and_by_value(dialect: Dialect) -> None:
    assert FACTS[dialect.value] is FACTS[dialect] is dialect.facts
    assert CODECS[dialect].dialect is dialect
    assert dialect.facts.title == f"{dialect.facts.maker} {dialect.facts.api}"
    assert repr(dialect.facts) == f"<WireFacts {dialect.facts.name}>"


def test_the_dialects_with_a_part_of_their_own() -> None:
    assert DEFAULT_DIALECT in CLIENT_DIALECTS
    assert [each for each in Dialect if each.facts.stored] == [STORED_DIALECT]
    assert [each for each in Dialect if each.facts.client] == [*CLIENT_DIALECTS]


@pytest.mark.parametrize("dialect", [each for each in Dialect if each.facts.names_target])
def test_the_path_of_a_plain_endpoint_is_the_same_for_all_models(dialect: Dialect) -> None:
    assert dialect.facts.target("m", stream=True) == Target("m", True, dialect.path)


def test_a_path_may_have_the_model_and_the_choice_of_a_stream() -> None:
    facts = replace(
        Dialect.CHAT.facts,
        path="models/{model}:generateContent",
        stream_path="models/{model}:streamGenerateContent?alt=sse",
    )
    assert facts.target("a/b@1", stream=False).path == "models/a%2Fb@1:generateContent"
    assert facts.target("m", stream=True) == Target("m", True, "models/m:streamGenerateContent?alt=sse")
    assert facts.target("models/m", stream=False).path == "models/m:generateContent"
    assert facts.target("tunedModels/m", stream=True).path == "tunedModels/m:streamGenerateContent?alt=sse"
    assert facts.target("ourModels/m", stream=False).path == "models/ourModels%2Fm:generateContent"
    for step in ("..", "tunedModels/..", "models/"):
        with pytest.raises(ClientRequestError):
            facts.target(step, stream=False)


def test_heartbeats() -> None:
    assert Dialect.CHAT.facts.heartbeat == Dialect.RESPONSES.facts.heartbeat == COMMENT
    assert Dialect.RESPONSES.facts.event_heartbeat == keepalive_frame(0)


@pytest.mark.parametrize("dialect", [each for each in Dialect if each.facts.last_events])
def test_the_last_event_ends_a_recorded_stream(dialect: Dialect) -> None:
    frames = [frame for frame in Parser().parse((TRANSCRIPTS / dialect / "text.sse").read_bytes()) if frame.data]
    last = frames[-1]
    assert {last.event, (last.data or b"").decode()} & {*dialect.facts.last_events}


def test_the_signs_of_two_dialects_differ() -> None:
    chat, messages = Dialect.CHAT.facts.signs, Dialect.MESSAGES.facts.signs
    for one, other in zip(chat, messages, strict=True):
        assert not one & other


@pytest.mark.parametrize(
    ("form", "what_first", "prefix"),
    [(Dialect.CHAT, False, "x-ratelimit-"), (Dialect.MESSAGES, True, "anthropic-ratelimit-")],
)
def test_the_names_of_rate_limits(form: Dialect, what_first: bool, prefix: str) -> None:
    limits = form.facts.limits
    assert limits is not None
    assert limits.what_first is what_first
    assert limits.prefix == prefix
