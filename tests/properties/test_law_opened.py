"""An envelope that was opened before changes nothing: neither the output, nor the losses, nor the errors."""

from __future__ import annotations

import copy
import tracemalloc
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import LossCode, direction, translate
from dragoman.errors import ClientRequestError
from dragoman.knobs import Knobs
from dragoman.reasoning import envelope
from dragoman.reasoning.envelope import TAG, Envelope, unwrap

OTHERS = st.sampled_from(["thinking", "text", "signature", "id", "summary", "content", "cache_control", "x"])
JUNK = st.recursive(st.none() | st.integers(-3, 9) | st.text(max_size=6), lambda inner: st.lists(inner, max_size=3))
ITEMS = st.lists(st.just({"type": "summary_text", "text": "s "}), max_size=2)
BLOCKS = st.one_of(
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": st.text(max_size=5), "signature": st.just("s")}),
    st.fixed_dictionaries({"type": st.just("thinking")}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": st.text(max_size=5)}),
    st.fixed_dictionaries(
        {"type": st.just("reasoning"), "id": st.sampled_from(["rs_1", "rs_2", ""]), "summary": ITEMS}
    ),
    st.fixed_dictionaries({"reasoning_content": st.text(max_size=5)}),
    st.fixed_dictionaries(
        {"reasoning_details": st.just([{"type": "reasoning.text", "text": "t"}, {"type": "reasoning.encrypted"}])}
    ),
)
FORGED = st.builds(lambda block, more: {**block, **more}, BLOCKS, st.dictionaries(OTHERS, JUNK, max_size=2))
WRAPPED = st.builds(
    lambda dialect, family, block: Envelope(family, "m").wrap(dialect, block),
    st.sampled_from(["messages", "responses", "chat"]),
    st.sampled_from(["messages", "responses", "chat", "elsewhere"]),
    BLOCKS | FORGED,
)
DAMAGED = st.sampled_from([TAG, TAG + "!", TAG + "e30", "no.envelope", TAG + urlsafe_b64encode(b'{"d":1}').decode()])
PROOFS = st.lists(WRAPPED | DAMAGED, min_size=1, max_size=4)


TAILS: st.SearchStrategy[Any] = st.sampled_from(["whole", "answered", "broken"])


def messages(proofs: list[str], tail: str) -> dict[str, Any]:
    history: list[Any] = [{"role": "user", "content": "Go on."}]
    for proof in proofs:
        reasonings = [{"type": "thinking", "thinking": "t ", "signature": proof}]
        reasonings += [{"type": "redacted_thinking", "data": proof}]
        history += [{"role": "assistant", "content": reasonings}, {"role": "user", "content": "And?"}]
    return {"model": "m", "max_tokens": 9, "messages": _ended(history, tail)}


def responses(proofs: list[str], tail: str) -> dict[str, Any]:
    items: list[Any] = [{"role": "user", "content": "Go on."}]
    for proof in proofs:
        items += [{"type": "reasoning", "summary": [], "encrypted_content": proof}, {"role": "user", "content": "And?"}]
    return {"model": "m", "input": _ended(items, tail)}


def _ended(history: list[Any], tail: str) -> list[Any]:
    """On a message of the user's, on the last reasoning, or on a message that is not one."""
    if tail == "broken":
        return [*history, {"role": "user", "content": [{"type": 1}]}]
    return history[:-1] if tail == "answered" else history


CLIENTS = {"messages": messages, "responses": responses}


def outcome(client: str, upstream: str, body: bytes) -> Any:
    try:
        translation = translate(direction(client, upstream), body)
    except ClientRequestError as error:
        return type(error), error.failure
    return translation.body, list(translation.losses.rows), translation.losses.counts


@pytest.mark.parametrize("upstream", ["messages", "responses", "chat"])
@pytest.mark.parametrize("client", CLIENTS)
@given(proofs=PROOFS, tail=TAILS)
def test_an_envelope_opened_before_is_what_it_was(client: str, upstream: str, proofs: list[str], tail: str) -> None:
    body = orjson.dumps(CLIENTS[client](proofs, tail))
    envelope.clear_cache()
    opened = [copy.deepcopy(unwrap(proof)) for proof in proofs]
    envelope.clear_cache()
    first = outcome(client, upstream, body)
    assert outcome(client, upstream, body) == first
    assert [unwrap(proof) for proof in proofs] == opened  # anyone who wrote it changed nothing in it


@pytest.mark.parametrize("text", ["x ", 5, None])
def test_a_block_that_ends_the_conversation_is_sent_as_it_is(text: Any) -> None:
    """White space is cut from a text that the model is to continue, and from nothing else."""
    forged = {"type": "thinking", "thinking": "t", "signature": "s", "text": text}
    body = orjson.dumps(responses([Envelope("messages", "m").wrap("messages", forged)], "answered"))
    knobs = Knobs(prefill="pass")
    for _ in range(2):
        translation = translate(direction("responses", "messages"), body, knobs=knobs)
        assert orjson.loads(translation.body)["messages"][-1]["content"] == [forged]
        assert set(translation.losses.counts) == {LossCode.CAP_ADDED}


@given(WRAPPED | DAMAGED)
def test_what_is_kept_is_what_is_opened(text: str) -> None:
    envelope.clear_cache()
    first = unwrap(text)
    assert unwrap(str(text.encode(), "ascii")) == first
    envelope.clear_cache()
    assert unwrap(text) == first


def test_a_long_history_does_not_stay_in_memory() -> None:
    """However much comes, and however much more an envelope takes once it is opened."""
    envelope.clear_cache()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(900):
            block = {"type": "reasoning", "id": f"rs_{number}", "summary": [{"": 0}] * 150}
            found = unwrap(Envelope("f", "m").wrap("responses", block))
            assert found is not None
            assert found.block == block
        found = block = None  # type: ignore[assignment]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    envelope.clear_cache()
    assert 1_000_000 < after - before < 20_000_000


def test_threads_open_the_same_envelopes() -> None:
    texts = [Envelope("f", "m").wrap("chat", {"reasoning_content": str(number) * 900}) for number in range(300)]
    envelope.clear_cache()

    def read(offset: int) -> bool:
        for place in range(len(texts) * 3):
            number = (place * 7 + offset) % len(texts)
            found = unwrap(texts[number])
            if found is None or found.block != {"reasoning_content": str(number) * 900}:
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(read, range(0, 300, 50)))
    envelope.clear_cache()
