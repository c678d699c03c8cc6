"""Fields of a body that the configuration adds or leaves out, with their rows."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from dragoman import Dialect, Knobs, LossCode, Translation, direction, translate
from dragoman.errors import Unsupported
from dragoman_server.config.door import Door
from dragoman_server.config.provider import Provider
from dragoman_server.proxy.betas import Betas
from dragoman_server.proxy.configured_fields import count_body, with_fields
from support.samples import request

CHAT, MESSAGES, *_ = Dialect


def provider(dialect: Dialect, **door: Any) -> Provider:
    return Provider("p", dialect, "http://h/v1", door=Door(**door))


def made(client: Dialect, at: Provider, knobs: Knobs | None = None, **fields: Any) -> Translation:
    body = json.dumps(request(client, **fields)).encode()
    way = direction(client, at.dialect)
    return with_fields(partial(translate, way, body, knobs=knobs or Knobs()), at)


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
def test_rows(client: Dialect) -> None:
    at = provider(CHAT, omit=("temperature", "absent"), body={"user": "fixed", "top_p": 0.5})
    translation = made(client, at, temperature=0.25, top_p=0.75)
    sent = json.loads(translation.body)
    assert (sent["user"], sent["top_p"], "temperature" in sent) == ("fixed", 0.5, False)
    rows = {row.path: row.done for row in translation.losses.rows if row.code is LossCode.FIELD_CONFIGURED}
    assert rows == {"temperature": "not sent to p (omit)", "top_p": "the value for p was sent (body)"}


def test_losses_that_are_rejected() -> None:
    at, strict = provider(CHAT, omit=("temperature",)), Knobs(on_loss="reject")
    with pytest.raises(Unsupported, match="temperature: cannot be sent to this upstream"):
        made(CHAT, at, strict, temperature=0.25)
    translation = made(CHAT, at, strict)
    assert not translation.losses
    assert not translation.losses.strict


def test_a_model_in_the_url_is_no_loss() -> None:
    in_url = made(CHAT, provider(CHAT, path="{model}/x", omit=("model",)))
    assert "model" not in json.loads(in_url.body)
    assert not in_url.losses
    nowhere = made(CHAT, provider(CHAT, omit=("model",)))
    assert [row.path for row in nowhere.losses.rows] == ["model"]


@pytest.mark.parametrize(
    ("count_path", "sent"),
    [
        ("count", {"messages": [], "v": 1, "model": "claude"}),
        ("{model}/count", {"messages": [], "v": 1}),
    ],
)
def test_a_body_that_is_counted(count_path: str, sent: dict[str, Any]) -> None:
    at = provider(MESSAGES, path="{model}/x", count_path=count_path, omit=("model", "other"), body={"v": 1})
    for body in (b'{"messages":[]}', b'{"model":"m","messages":[],"other":1}'):
        assert json.loads(count_body(body, at, "claude")) == sent


def test_betas_of_the_client() -> None:
    """They are sent with the client's body only, and each that the provider does not take is a loss."""
    at = provider(MESSAGES, betas="both")
    betas, body = Betas(("a-1", "b-1"), ("c-1", "d-1")), json.dumps(request(MESSAGES)).encode()
    translation = with_fields(partial(translate, direction(MESSAGES, MESSAGES), body), at, betas)
    assert json.loads(translation.body)["anthropic_beta"] == ["a-1", "b-1"]
    rows = [(row.path, row.done) for row in translation.losses.rows if row.code is LossCode.VENDOR_OPTION]
    assert rows == [("anthropic-beta", "p does not take c-1"), ("anthropic-beta", "p does not take d-1")]
    with pytest.raises(Unsupported, match="anthropic-beta: cannot be sent to this upstream"):
        with_fields(partial(translate, direction(MESSAGES, MESSAGES), body, knobs=Knobs(on_loss="reject")), at, betas)
    foreign = with_fields(partial(translate, direction(CHAT, MESSAGES), json.dumps(request(CHAT)).encode()), at, betas)
    assert "anthropic_beta" not in json.loads(foreign.body)
    assert not any(row.code is LossCode.VENDOR_OPTION for row in foreign.losses.rows)


def test_betas_of_a_count() -> None:
    at = provider(MESSAGES, betas="body")
    assert json.loads(count_body(b'{"model":"m"}', at, "m", Betas(("a-1",)))) == {
        "model": "m",
        "anthropic_beta": ["a-1"],
    }
