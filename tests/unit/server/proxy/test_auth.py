"""Keys: which one counts, which one goes out, and that nothing else of the client's does."""

from __future__ import annotations

import hmac
from typing import Any

import pytest
from multidict import CIMultiDict

from dragoman.dialects import Dialect
from dragoman.errors import ClientRequestError, DragomanError, FailureKind
from dragoman_server.accounts.keys.secret import PREFIX
from dragoman_server.config.door import AUTH_HEADERS, Door
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.schema import Config, Server
from dragoman_server.proxy import auth as auth_module
from dragoman_server.proxy.auth import OwnKeys, check_inbound, client_login, outbound_headers, presented_keys

CANARY = "sk-canary-7f3a"
LOCKED = Config(server=Server(keys=(Secret("first"), Secret("second"), Secret("third"))))

CLIENT = {
    "X-Api-Key": CANARY,
    "Authorization": f"Bearer {CANARY}",
    "Cookie": "session=1",
    "X-Stainless-Lang": "python",
    "Connection": "keep-alive",
    "Transfer-Encoding": "chunked",
    "Proxy-Authorization": "Basic x",
    "Host": "gateway",
    "User-Agent": "agent/1",
    "X-Forwarded-For": "10.0.0.1",
    "Anthropic-Version": "2026-10-21",
    "Anthropic-Beta": "a-1",
    "OpenAI-Organization": "org",
    "OpenAI-Project": "proj",
    "Idempotency-Key": "idem",
}


def provider(dialect: Dialect, **more: Any) -> Provider:
    more.setdefault("api_key", Secret("ours"))
    return Provider("p", dialect, "http://h", **more)


@pytest.mark.parametrize(
    ("headers", "keys"),
    [
        ({}, []),
        ({"x-api-key": "a"}, ["a"]),
        ({"X-API-KEY": " a "}, ["a"]),
        ({"authorization": "Bearer b"}, ["b"]),
        ({"Authorization": "bearer   b "}, ["b"]),
        ({"x-api-key": "a", "authorization": "Bearer b"}, ["a", "b"]),
        ({"x-api-key": "", "authorization": "Bearer b"}, ["b"]),
        ({"authorization": "Bearer b", "x-dragoman-key": "c"}, ["c", "b"]),
        ({"authorization": "Basic b"}, []),
        ({"authorization": "Bearer"}, []),
        ({"authorization": "Bearer "}, []),
        ({"authorization": "b"}, []),
    ],
)
def test_the_keys_that_a_client_presents(headers: dict[str, str], keys: list[str]) -> None:
    assert presented_keys(headers) == keys
    assert presented_keys(CIMultiDict(headers)) == keys


@pytest.mark.parametrize(
    ("headers", "login"),
    [
        ({"x-api-key": "a", "authorization": "Bearer b"}, ("a", False)),
        ({"x-api-key": "first", "authorization": "Bearer b"}, ("b", True)),
        ({"x-api-key": "a", "authorization": "Bearer second"}, ("a", False)),
        ({"x-dragoman-key": "first", "authorization": "Bearer b"}, ("b", True)),
        ({"x-dragoman-key": "c"}, None),
        ({"x-api-key": "first", "authorization": "Bearer first"}, None),
        ({"authorization": "Bearer dgm-anything"}, None),
    ],
)
def test_a_login_is_no_key_of_the_gateway(headers: dict[str, str], login: tuple[str, bool] | None) -> None:
    own = OwnKeys(LOCKED)
    headers = {name: value.replace("dgm-", PREFIX) for name, value in headers.items()}
    assert client_login(headers, own) == client_login(CIMultiDict(headers), own) == login
    assert "b" not in repr(client_login(headers, own)).removeprefix("<Login")


@pytest.mark.parametrize("key", ["first", "second", "third"])
def test_each_key_lets_in(key: str) -> None:
    check_inbound(LOCKED, {"x-api-key": key})
    check_inbound(LOCKED, {"authorization": f"Bearer {key}"})


def test_without_keys_everybody_is_let_in() -> None:
    check_inbound(Config(), {})


@pytest.mark.parametrize("key", ["", "fir", "firstfirst", "First", CANARY, "\udcff\udcfe", "ü"])
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(DragomanError) as caught:
        check_inbound(LOCKED, {"x-api-key": key})
    failure = caught.value.failure
    assert (failure.kind, failure.status) == (FailureKind.AUTHENTICATION, 401)
    assert CANARY not in failure.message
    assert "first" not in failure.message


@pytest.mark.parametrize("header", ["x-api-key", "x-dragoman-key", "authorization"])
def test_a_right_key_lets_in_whatever_the_other_headers_have(header: str) -> None:
    wrong = {"x-api-key": "wrong", "x-dragoman-key": "wrong", "authorization": "Bearer wrong"}
    with pytest.raises(DragomanError):
        check_inbound(LOCKED, wrong)
    right = {"authorization": "Bearer first"} if header == "authorization" else {header: "first"}
    assert check_inbound(LOCKED, wrong | right) == Secret("first").digest


@pytest.mark.parametrize("key", ["first", "third", "wrong"])
def test_every_key_is_compared_as_a_digest(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []

    def watched(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return hmac.compare_digest(a, b)

    monkeypatch.setattr(auth_module, "compare_digest", watched)
    if key == "wrong":
        with pytest.raises(DragomanError):
            check_inbound(LOCKED, {"x-api-key": key})
    else:
        check_inbound(LOCKED, {"x-api-key": key})
    assert compared == [(32, 32)] * 3


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("dialect", list(Dialect))
def test_the_configured_key_goes_out_and_the_clients_never(dialect: Dialect, same: bool) -> None:
    out = outbound_headers(provider(dialect), CLIENT, same_dialect=same)
    assert CANARY not in str(out)
    header = dialect.facts.key_header
    expected = {"authorization": "Bearer ours"} if header == "bearer" else {header: "ours"}
    if dialect is Dialect.MESSAGES:
        expected["anthropic-version"] = "2026-10-21" if same else "2023-06-01"
        if same:
            expected["anthropic-beta"] = "a-1"
    elif same and dialect.facts.body_headers:
        expected["idempotency-key"] = "idem"
    assert out == expected


@pytest.mark.parametrize("dialect", list(Dialect))
def test_without_a_key_none_is_sent(dialect: Dialect) -> None:
    out = outbound_headers(provider(dialect, api_key=None), CLIENT)
    assert CANARY not in str(out)
    assert out == ({"anthropic-version": "2023-06-01"} if dialect is Dialect.MESSAGES else {})


@pytest.mark.parametrize("headers", [{"x-api-key": "k"}, {"authorization": "Bearer k"}])
def test_passthrough_takes_the_upstreams_form(headers: dict[str, str]) -> None:
    messages = provider(Dialect.MESSAGES, api_key=None, auth=Auth.PASSTHROUGH)
    chat = provider(Dialect.CHAT, api_key=None, auth=Auth.PASSTHROUGH)
    assert outbound_headers(messages, headers) == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert outbound_headers(chat, headers) == outbound_headers(chat, headers, same_dialect=True)
    assert outbound_headers(chat, headers) == {"authorization": "Bearer k"}
    assert outbound_headers(chat, {}) == {}


def test_passthrough_keeps_an_access_token_a_bearer() -> None:
    messages = provider(Dialect.MESSAGES, api_key=None, auth=Auth.PASSTHROUGH)
    out = outbound_headers(messages, {"authorization": "Bearer oat"}, same_dialect=True)
    assert out == {"anthropic-version": "2023-06-01", "authorization": "Bearer oat"}
    out = outbound_headers(messages, {"authorization": "Bearer oat", "x-api-key": "k"}, same_dialect=True)
    assert out == {"anthropic-version": "2023-06-01", "x-api-key": "k"}


@pytest.mark.parametrize("token", ["sk-ant-oat01-abc", "ya29.abc", "eyJhbGciOi.eyJzdWIi.c2ln"])
def test_a_token_of_oauth_stays_a_bearer_between_dialects(token: str) -> None:
    messages = provider(Dialect.MESSAGES, api_key=None, auth=Auth.PASSTHROUGH)
    headers = {"authorization": f"Bearer {token}"}
    assert outbound_headers(messages, headers)["authorization"] == f"Bearer {token}"
    assert "x-api-key" not in outbound_headers(messages, headers)
    # What the client sends as an API key is one.
    assert outbound_headers(messages, {"x-api-key": token})["x-api-key"] == token


@pytest.mark.parametrize("auth", list(Auth))
@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("word", AUTH_HEADERS)
def test_the_key_is_sent_in_the_header_of_the_door(word: str, dialect: Dialect, auth: Auth) -> None:
    key = Secret("ours") if auth is Auth.CONFIGURED else None
    out = outbound_headers(
        provider(dialect, api_key=key, auth=auth, door=Door(auth_header=word)), {"authorization": "Bearer ours"}
    )
    out.pop("anthropic-version", None)
    assert out == ({"authorization": "Bearer ours"} if word == "bearer" else {word: "ours"})


def test_named_headers_are_passed_on_within_a_dialect() -> None:
    chat = provider(Dialect.CHAT, door=Door(forward_headers=("ChatGPT-Account-Id", "x-absent")))
    headers = CIMultiDict({"chatgpt-account-id": "acc", "x-other": "o"})
    assert outbound_headers(chat, headers) == {"authorization": "Bearer ours"}
    out = {"authorization": "Bearer ours", "chatgpt-account-id": "acc"}
    assert outbound_headers(chat, headers, same_dialect=True) == out
    assert outbound_headers(chat, headers, same_dialect=True, same_body=False) == out
    with pytest.raises(ClientRequestError):
        outbound_headers(chat, {"chatgpt-account-id": "a\nb"}, same_dialect=True)


def test_the_gateways_key_is_never_passed_through() -> None:
    chat = provider(Dialect.CHAT, api_key=None, auth=Auth.PASSTHROUGH)
    own = OwnKeys(LOCKED)
    for same in (False, True):
        for headers in ({"x-api-key": "first"}, {"authorization": "Bearer first"}, {"x-dragoman-key": "first"}):
            assert outbound_headers(chat, headers, same_dialect=same, own=own) == {}


def test_passthrough_takes_the_organisation_along() -> None:
    chat = provider(Dialect.CHAT, api_key=None, auth=Auth.PASSTHROUGH)
    assert outbound_headers(chat, CLIENT, same_dialect=True) == {
        "idempotency-key": "idem",
        "authorization": f"Bearer {CANARY}",
        "openai-organization": "org",
        "openai-project": "proj",
    }
    assert outbound_headers(chat, CLIENT) == {"authorization": f"Bearer {CANARY}"}


def test_T44_beta_headers_of_several_lines_stay_with_the_body() -> None:
    headers = CIMultiDict([("Anthropic-Beta", "a-1,b-2"), ("anthropic-beta", "c-3")])
    messages = provider(Dialect.MESSAGES)
    assert outbound_headers(messages, headers, same_dialect=True)["anthropic-beta"] == "a-1,b-2,c-3"
    assert "anthropic-beta" not in outbound_headers(messages, headers)


def test_the_providers_own_headers_win() -> None:
    azure = provider(Dialect.CHAT, headers={"Api-Key": "k", "Authorization": "Custom x"})
    assert outbound_headers(azure, {}) == {"authorization": "Custom x", "api-key": "k"}


@pytest.mark.parametrize("bad", ["a\r\nx: y", "a\nb", "a\x00b", "\udcff", "a\x7f"])
def test_nothing_can_be_smuggled_through_a_forwarded_header(bad: str) -> None:
    with pytest.raises(ClientRequestError) as caught:
        outbound_headers(provider(Dialect.MESSAGES), {"anthropic-beta": bad}, same_dialect=True)
    assert bad not in caught.value.failure.message
    chat = provider(Dialect.CHAT, api_key=None, auth=Auth.PASSTHROUGH)
    with pytest.raises(ClientRequestError) as caught:
        outbound_headers(chat, {"authorization": f"Bearer {bad}"})
    assert bad not in caught.value.failure.message


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("auth", list(Auth))
@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_multidict_and_a_plain_dict_give_the_same(dialect: Dialect, auth: Auth, same: bool) -> None:
    upstream = provider(dialect, auth=auth)
    assert outbound_headers(upstream, CIMultiDict(CLIENT), same_dialect=same) == outbound_headers(
        upstream, CLIENT, same_dialect=same
    )
