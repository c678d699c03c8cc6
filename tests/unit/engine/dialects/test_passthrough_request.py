"""Requests between equal dialects are sent on in the client's own bytes."""

from __future__ import annotations

import json

import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.passthrough_request import check_keys, rename_model, restore
from dragoman.errors import ClientRequestError
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile

PROFILE = Profile()
BODY = b'{ "model" : "m",  "max_tokens": 1.0, "messages": [] }'


def test_a_key_that_is_given_twice_is_rejected() -> None:
    check_keys(BODY, json.loads(BODY))
    body = b'{"model":"a","messages":[],"mod\\u0065l":"b"}'
    with pytest.raises(ClientRequestError, match="model: is given more than once"):
        check_keys(body, json.loads(body))


def test_only_the_name_of_the_model_changes() -> None:
    assert rename_model(BODY, json.loads(BODY), "m") is BODY
    assert rename_model(BODY, json.loads(BODY), 'new"') == BODY.replace(b'"m"', b'"new\\""')


@pytest.mark.parametrize("dialect", Dialect)
def test_bytes_without_an_envelope_are_unchanged(dialect: Dialect) -> None:
    losses = Losses()
    assert restore(CODECS[dialect], BODY, json.loads(BODY), PROFILE, losses, strip_noise=True) is BODY
    assert not losses


def test_the_billing_line_of_claude_code_is_dropped_if_noise_is() -> None:
    line = "x-anthropic-billing-header: cc_version=2.1; cch=1;"
    body = json.dumps({"model": "m", "system": [{"type": "text", "text": line}], "messages": []}).encode()
    payload = json.loads(body)
    codec = CODECS[Dialect.MESSAGES]
    assert restore(codec, body, payload, PROFILE, Losses(), strip_noise=False) is body
    assert line.encode() not in restore(codec, body, payload, PROFILE, Losses(), strip_noise=True)
    assert payload == json.loads(body), "the caller's payload is unchanged"
