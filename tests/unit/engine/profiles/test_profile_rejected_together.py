"""Fields that a vendor refuses only for some models or with another field: late instructions, sampling, metadata."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Translation, direction, translate
from dragoman.losses import LossCode
from dragoman.profiles.profile import builtin_profile

Json = dict[str, Any]
LATE: list[Json] = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Go on"},
    {"role": "system", "content": "Be brief."},
]


def sent(
    client: str, upstream: str, profile: str, flags: Json | None = None, **fields: Any
) -> tuple[Json, Translation]:
    """The request that reaches the upstream."""
    body = {"model": "m", **fields}
    chosen = builtin_profile(upstream, profile).replace(flags or {})
    made = translate(
        direction(client, upstream), json.dumps(body).encode(), upstream_model=body["model"], profile=chosen
    )
    return json.loads(made.body), made


@pytest.mark.parametrize(
    ("profile", "top_p"), [("anthropic", None), ("bedrock-invoke", None), ("compatible", 0.9), ("deepseek", 0.9)]
)
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_top_p_is_not_sent_beside_temperature_where_that_is_refused(
    client: str, profile: str, top_p: float | None
) -> None:
    asked: Json = {"messages": LATE[:1], "max_tokens": 99}
    if client == "responses":
        asked = {"input": "Hi", "max_output_tokens": 99}
    body, made = sent(client, "messages", profile, temperature=0.5, top_p=0.9, **asked)
    assert (body["temperature"], body.get("top_p")) == (0.5, top_p)
    rows = [(row.code, row.path) for row in made.losses.rows]
    assert rows == ([(LossCode.SAMPLING_UNSUPPORTED, "top_p")] if top_p is None else [])


@pytest.mark.parametrize(("profile", "kept"), [("openai", False), ("azure", False), ("compatible", True)])
def test_metadata_is_not_sent_where_nothing_is_stored(profile: str, kept: bool) -> None:
    body, made = sent("responses", "chat", profile, input="Hi", metadata={"run": "7"}, store=True)
    assert body.get("metadata") == ({"run": "7"} if kept else None)
    assert "store" not in body
    assert [(row.code, row.path) for row in made.losses.rows] == ([] if kept else [(LossCode.METADATA, "metadata")])


@pytest.mark.parametrize(("store", "kept"), [(True, True), (False, False), (None, False)])
def test_metadata_is_sent_with_store(store: bool | None, kept: bool) -> None:
    body, made = sent(
        "chat", "chat", "openai", {"rewrite": True}, messages=LATE[:1], metadata={"run": "7"}, store=store
    )
    assert ("metadata" in body, body.get("store")) == (kept, store)
    assert made.losses.counts == ({} if kept else {LossCode.METADATA: 1})


def test_no_metadata_is_no_loss() -> None:
    body, made = sent("responses", "chat", "openai", input="Hi", metadata={})
    assert ("metadata" in body, made.losses.counts) == (False, {})
