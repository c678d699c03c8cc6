"""Peers' conversions in their own processes: results, failures, and missing peers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman_bench import converters
from dragoman_bench.converters import Converter
from dragoman_bench.gateways import StartError
from dragoman_bench.gateways.environments import ENVIRONMENTS, HOME_VARIABLE

PEER = """
def convert(body, target, source_provider):
    print("a peer that talks on its standard output")
    if body.pop("model") == "refused":
        raise ValueError("no such model for " + body["text"])
    return {"text": body["text"], "to": target, "from": source_provider}
"""


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Converter]:
    """llm-rosetta's place, held by a peer that changes what it is given."""
    (tmp_path / "llm_rosetta.py").write_text(PEER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    converter = Converter("llm-rosetta", Path(sys.executable))
    yield converter
    converter.close()


def test_a_conversion_and_its_time(peer: Converter) -> None:
    expected = peer.convert('{"model":"m","text":"é"}'.encode(), "messages", "chat")
    assert expected == {"text": "é", "to": "openai_chat", "from": "anthropic"}
    assert type(peer.seconds(3)) is float  # each of a body of its own, or the second would miss its model


def test_a_failed_conversion_is_reported_and_the_next_one_works(peer: Converter) -> None:
    with pytest.raises(StartError, match=r"llm-rosetta cannot convert this: ValueError.*no such model") as expected:
        peer.convert(b'{"model":"refused","text":"%b"}' % (b"a long talk " * 1000), "chat", "responses")
    assert len(str(expected.value)) < 500
    assert peer.convert(b'{"model":"m","text":"a"}', "chat", "responses")["to"] == "openai_responses"


def test_a_peer_whose_process_ended_is_reported(peer: Converter, tmp_path: Path) -> None:
    (tmp_path / "llm_rosetta.py").write_text("raise SystemExit")
    with pytest.raises(StartError, match="the process ended"):
        peer.convert(b"{}", "chat", "responses")


def test_a_missing_peer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert "dragoman bench peers install litellm" in str(converters.missing("litellm"))


def test_every_peer_has_an_environment() -> None:
    assert set(converters.PEERS) <= ENVIRONMENTS.keys()
