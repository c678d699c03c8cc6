"""The observer of Chat streams that pass through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import Usage
from dragoman.dialects.chat.stream.observer import ChatObserver
from dragoman.stages.observer import Observer
from support.strategies import texts


def watch(observer: Observer, *payloads: Any, named: bool = False) -> Observer:
    for payload in payloads:
        data = payload if isinstance(payload, str) else json.dumps(payload)
        event = payload.get("type", "") if named and isinstance(payload, dict) else ""
        observer.observe(data.encode(), event)
    return observer


def piece(index: int = 0, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {}, "finish_reason": finish}], **extra}


def test_chat_takes_several_choices_and_is_complete_when_all_have_finished() -> None:
    observer = ChatObserver()
    observer.several = True
    watch(observer, piece(0), piece(1), piece(0, "stop"))
    assert not observer.complete
    watch(observer, piece(1, "length"))
    assert (observer.complete, observer.closed, observer.violations) == (True, False, [])
    watch(observer, {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, "[DONE]")
    assert (observer.closed, observer.usage) == (True, Usage(1, None, None, 2))


def test_T27_chat_stays_complete_when_chunks_follow_the_finish() -> None:
    observer = watch(ChatObserver(), piece(0), piece(0, "stop"), piece(0, usage={"prompt_tokens": 3}))
    assert observer.complete
    assert observer.violations == ["a chunk of a choice that had finished"]
    assert observer.usage == Usage(3)


@pytest.mark.parametrize("before", [[], [piece(0)], [piece(0, "stop"), piece(1)]])
def test_T27_chat_done_before_every_finish_closes_without_completing(before: list[Any]) -> None:
    observer = ChatObserver()
    observer.several = True
    watch(observer, *before, "[DONE]")
    assert (observer.complete, observer.closed) == (False, True)
    assert observer.violations == ["[DONE] before every choice had finished"]


@pytest.mark.parametrize("frame", ["{", "[]", '"x"', {"id": "x"}, {"choices": ["x"]}, {"choices": [{"index": []}]}])
def test_chat_notes_what_is_no_chunk(frame: Any) -> None:
    observer = watch(ChatObserver(), frame)
    assert observer.violations or observer.odd


_odd = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("choices", "usage", "error", "detail"), _odd)), _odd, _odd)
def test_no_value_makes_the_chat_observer_raise(chunk: Any, index: Any, finish: Any) -> None:
    watch(ChatObserver(), chunk, {"choices": [{"index": index, "finish_reason": finish}]}, "[DONE]")
