"""Law: no request, however mutated, raises anything but a documented error, and each 400 names the client's field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Direction, DragomanError, Failure, Knobs, LossCode, Translation, builtin_profile, translate
from support.directions import ALL, CROSS, profiles
from support.mutations import mutated_json
from support.requests import Features, conversations

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_PATHS = {"/v1/chat/completions": "chat", "/v1/messages": "messages", "/v1/responses": "responses"}


def _recorded() -> dict[str, list[Any]]:
    """Small bodies that real clients sent."""
    found: dict[str, list[Any]] = {"chat": [], "messages": [], "responses": []}
    for path in sorted((Path(__file__).parents[1] / "fixtures").glob("*.json")):
        request = json.loads(path.read_text("utf-8"))["request"]
        dialect = _PATHS.get(request["path"])
        if dialect is not None and "body" in request and len(json.dumps(request["body"])) < 30_000:
            found[dialect].append(request["body"])
    return found


RECORDED = _recorded()


def bodies(dialect: str) -> st.SearchStrategy[Any]:
    """Valid bodies to be spoilt: generated ones and recorded ones."""
    generated = conversations(dialect, Features(orphans=True)).map(lambda conversation: conversation.body())
    return st.one_of(generated, generated, st.sampled_from(RECORDED[dialect]))


def names_a_field(param: str, body: Any) -> bool:
    """Return whether the path leads to a value of the body, or to a key that an object of it lacks."""
    steps = [int(index) if index else key for index, key in _STEP.findall(param)]
    assert steps, param
    here = body
    for at, step in enumerate(steps):
        last = at == len(steps) - 1
        if isinstance(step, int):
            if not isinstance(here, list) or step >= len(here):
                return False
            here = here[step]
        else:
            if not isinstance(here, dict):
                return False
            if step not in here:
                return last
            here = here[step]
    return True


def attempt(row: Direction, raw: bytes, **options: Any) -> Translation | Failure:
    """The translation, or how it was refused. Any other exception is a defect."""
    try:
        return translate(row, raw, **options)
    except DragomanError as error:
        return error.failure


@pytest.mark.few
@pytest.mark.parametrize("row", ALL, ids=str)
@given(data=st.data())
def test_a_mutated_request_is_translated_or_refused_by_name(row: Direction, data: st.DataObject) -> None:
    body = data.draw(mutated_json(data.draw(bodies(row.client.dialect)), most=4))
    note(json.dumps(body))
    knobs = Knobs(
        mid_system=data.draw(st.sampled_from(("auto", "hoist", "inline", "user"))),
        orphans=data.draw(st.sampled_from(("repair", "strip", "reject"))),
        prefill=data.draw(st.sampled_from(("auto", "reject", "drop", "pass"))),
        hosted_tools=data.draw(st.sampled_from(("drop", "reject", "map"))),
        custom_tool_bridge=data.draw(st.sampled_from(("auto", "wrap", "reject"))),
    )
    profile = builtin_profile(row.upstream.dialect, data.draw(profiles))
    outcome = attempt(row, json.dumps(body).encode(), profile=profile, knobs=knobs)
    if isinstance(outcome, Translation):
        json.loads(outcome.body)
        return
    note(outcome.message)
    assert outcome.status == 400
    assert outcome.message
    if isinstance(body, dict):
        assert outcome.param
        assert names_a_field(outcome.param, body), outcome.param
    status, envelope = row.client.write_failure(outcome)
    assert status == 400
    json.dumps(envelope)


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_where_losses_are_refused_the_refusal_names_the_field(row: Direction, data: st.DataObject) -> None:
    body = data.draw(conversations(row.client.dialect, Features(orphans=True))).body()
    raw = json.dumps(body).encode()
    profile = builtin_profile(row.upstream.dialect)
    lenient = translate(row, raw, profile=profile)
    outcome = attempt(row, raw, profile=profile, knobs=Knobs(on_loss="reject"))
    if isinstance(outcome, Translation):
        assert set(lenient.losses.counts) <= {LossCode.CAP_ADDED}  # a limit that the API requires is no loss
        assert outcome.body == lenient.body
    else:
        assert lenient.losses
        assert outcome.param
        assert names_a_field(outcome.param, body), outcome.param


@pytest.mark.parametrize("row", ALL, ids=str)
@given(raw=st.one_of(st.binary(max_size=40), st.text(max_size=20).map(lambda text: json.dumps(text).encode())))
def test_what_is_no_json_object_is_refused(row: Direction, raw: bytes) -> None:
    with pytest.raises(DragomanError) as caught:
        translate(row, raw)
    assert caught.value.failure.status == 400


@pytest.mark.parametrize("row", ALL, ids=str)
@pytest.mark.parametrize("depth", [100, 300, 1000, 100_000])
@pytest.mark.parametrize("escape", [b"", b"\\u0041"], ids=["plain", "escaped"])
def test_deep_nesting_is_translated_or_refused(row: Direction, depth: int, escape: bytes) -> None:
    body = conversation_with(row, b'{"type":"object","x":' + b"[" * depth + b"]" * depth + b',"y":"' + escape + b'"}')
    outcome = attempt(row, body)
    if isinstance(outcome, Translation):
        assert b"[" * depth in outcome.body
    else:
        assert outcome.status == 400


def conversation_with(row: Direction, schema: bytes) -> bytes:
    if row.client.dialect == "responses":
        tool = b'{"type":"function","name":"t","parameters":' + schema + b"}"
        return b'{"model":"m","input":"Hi","tools":[' + tool + b"]}"
    tool = b'{"name":"t","input_schema":' + schema + b"}"
    if row.client.dialect == "chat":
        tool = b'{"type":"function","function":{"name":"t","parameters":' + schema + b"}}"
    return b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"tools":[' + tool + b"]}"
