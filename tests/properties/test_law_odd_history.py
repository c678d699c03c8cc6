"""Law: no item of a history refuses the request. Its texts reach the model, and what was changed has a loss row.

Agents send their history with every request, so a 400 for an old item would end the session (mapping §8.4). The same
item in the user's latest turn keeps its error.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import ClientRequestError, Dialect, Direction, Knobs, LossCode, Translation, builtin_profile, translate
from oracles.requests import check
from support.directions import CROSS, DIALECTS, PASSTHROUGH
from support.odd_history import CURRENT, ODD, PLACES, conversation, current

Json = dict[str, Any]
HEADERS = {"anthropic-version": "2023-06-01"}


def sent(row: Direction, body: Json, profile: str | None = None, **knobs: Any) -> Translation:
    """The translation of a body."""
    raw = json.dumps(body).encode()
    return translate(row, raw, profile=builtin_profile(row.upstream.dialect, profile), knobs=Knobs(**knobs))


def refused(row: Direction, body: Json, **knobs: Any) -> str:
    """The field that the error of a request names, or empty."""
    try:
        sent(row, body, **knobs)
    except ClientRequestError as error:
        return error.failure.param or ""
    return ""


@pytest.mark.few
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("row", CROSS, ids=str)
def test_an_old_item_reaches_the_model_or_has_a_row(row: Direction, place: str) -> None:
    client = row.client.dialect
    for name, odd in ODD[client].items():
        if odd.waits_for_item:
            continue
        body = conversation(client, odd.items, place)
        try:
            translation = sent(row, body)
        except ClientRequestError as error:
            pytest.fail(f"{name}: {error}")
        written = json.loads(translation.body)
        check(row.upstream.dialect, written, HEADERS)
        text = json.dumps(written)
        assert [word for word in odd.texts if word not in text] == [], name
        codes = translation.losses.counts.keys() - {LossCode.CAP_ADDED}
        assert codes or not odd.changed, name


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
def test_a_compatible_server_gets_them_too(row: Direction) -> None:
    if row.upstream.dialect is Dialect.GENERATE:
        pytest.skip("has one profile")
    for name, odd in ODD[row.client.dialect].items():
        if odd.waits_for_item:
            continue
        try:
            sent(row, conversation(row.client.dialect, odd.items, "after_results"), "compatible")
        except ClientRequestError as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("row", PASSTHROUGH, ids=str)
def test_a_request_that_passes_through_is_left_to_its_upstream(row: Direction) -> None:
    for name, odd in ODD[row.client.dialect].items():
        for place in PLACES:
            try:
                sent(row, conversation(row.client.dialect, odd.items, place))
            except ClientRequestError as error:
                pytest.fail(f"{name}, {place}: {error}")


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_where_losses_are_refused_an_odd_item_is(row: Direction) -> None:
    for name, odd in ODD[row.client.dialect].items():
        if odd.changed:
            assert refused(row, conversation(row.client.dialect, odd.items, "between"), on_loss="reject"), name


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_the_latest_turn_keeps_its_error(row: Direction) -> None:
    client = row.client.dialect
    for name in CURRENT[client]:
        items = ODD[client][name].items
        field = f"{'input' if client == 'responses' else 'messages'}[{1 + len(items)}]"
        assert refused(row, current(client, items)).startswith(field), name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_row_names_the_message(dialect: str) -> None:
    """One row for each message, also if it was read more than once."""
    row = next(row for row in CROSS if row.client.dialect == dialect)
    odd = {"role": "user", "content": 7}
    losses = sent(row, conversation(dialect, [odd], "between")).losses
    field = "input" if dialect == "responses" else "messages"
    assert [loss.path for loss in losses if loss.code is LossCode.ITEM_SHAPE] == [f"{field}[2]"]
