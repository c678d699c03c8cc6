"""Counts by a vocabulary, where the extra that has one is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.tokens.by_vocabulary import by_vocabulary, vocabulary_installed

EXACT = json.loads((Path(__file__).parent / "exact.json").read_text("utf-8"))

needs_vocabulary = pytest.mark.skipif(not vocabulary_installed(), reason="the extra `tokens` is not installed")


@needs_vocabulary
def test_the_vocabulary_counts_exactly_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a vocabulary must not be fetched")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    texts = [text for text, _ in EXACT["texts"].values()]
    assert by_vocabulary(texts) == [exact for _, exact in EXACT["texts"].values()]


@needs_vocabulary
def test_the_vocabulary_takes_lone_surrogates_and_words_of_prompt_formats() -> None:
    assert by_vocabulary(["\ud83d and text", ""])[0] > 1
    assert by_vocabulary(["<|endoftext|>"])[0] > 1
