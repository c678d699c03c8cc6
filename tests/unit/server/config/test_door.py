"""The address of a provider: URLs of paths with a model, fields of bodies, headers, and their problems."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ClientRequestError
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.door import PLAIN, Door, credential_header
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Provider

VERTEX = {
    "dialect": "messages",
    "base_url": "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic",
    "path": "models/{model}:rawPredict",
    "stream_path": "models/{model}:streamRawPredict",
    "count_path": "models/count-tokens:rawPredict",
    "body": {"anthropic_version": "vertex-2023-10-16", "x": {"y": [1, 2.5, True]}},
    "omit": ["model"],
}


def parsed(**table: Any) -> Provider:
    provider = {"dialect": "chat", "base_url": "http://h/v1", **table}
    return parse_config({"providers": {"p": provider}}, {}).providers["p"]


def problems(**table: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parsed(**table)
    return {path.removeprefix("providers.p."): message for path, message in caught.value.problems}


def test_a_provider_without_these_settings() -> None:
    provider = parsed()
    assert provider.door is PLAIN
    assert not provider.has_own_way
    assert provider.main_endpoint("m", stream=True) == "http://h/v1/chat/completions"


def test_the_model_and_the_verb_in_the_url() -> None:
    provider = parsed(**VERTEX)
    base = VERTEX["base_url"]
    assert provider.main_endpoint("claude@1", stream=False) == f"{base}/models/claude@1:rawPredict"
    assert provider.main_endpoint("claude@1", stream=True) == f"{base}/models/claude@1:streamRawPredict"
    assert provider.count_endpoint("messages/count_tokens", "m") == f"{base}/models/count-tokens:rawPredict"
    assert provider.door.values == {
        "anthropic_version": b'"vertex-2023-10-16"',
        "x": b'{"y":[1,2.5,true]}',
    }
    assert provider.door.changes_body
    assert hash(provider) == hash(parsed(**VERTEX))
    assert not provider.has_own_way


def test_one_path_for_both_and_the_query_of_the_base_url() -> None:
    provider = parsed(base_url="http://h/v1?api-version=7", path="deployments/{model}/chat/completions")
    for stream in (False, True):
        expected = "http://h/v1/deployments/m/chat/completions?api-version=7"
        assert provider.main_endpoint("m", stream=stream) == expected
    assert provider.count_endpoint("any", "m") is None
    assert parsed().count_endpoint("any", "m", "beta=true") == "http://h/v1/any?beta=true"


@pytest.mark.parametrize(
    ("model", "quoted"),
    [("a/b", "a%2Fb"), ("a:predict", "a%3Apredict"), ("a?b#c", "a%3Fb%23c"), ("../x", "..%2Fx"), ("ü", "%C3%BC")],
)
def test_a_client_cannot_choose_the_path_by_a_models_name(model: str, quoted: str) -> None:
    assert parsed(path="m/{model}/x").main_endpoint(model, stream=False) == f"http://h/v1/m/{quoted}/x"


@pytest.mark.parametrize("model", [".", ".."])
def test_a_model_that_is_a_step_in_a_path_is_rejected(model: str) -> None:
    with pytest.raises(ClientRequestError, match="model: this name has no place"):
        parsed(path="m/{model}/x").main_endpoint(model, stream=False)


@pytest.mark.parametrize(
    ("table", "path", "message"),
    [
        ({"path": "m/{modle}"}, "path", "has the unknown field {modle}; the only one is {model}"),
        ({"path": "m/{}"}, "path", "has the unknown field {}"),
        ({"path": "m/{model!r}"}, "path", "has the unknown field"),
        ({"path": "m/{model:>9}"}, "path", "has the unknown field"),
        ({"path": "m/{model"}, "path", "is no template"),
        ({"path": "m/ x"}, "path", "not allowed in a URL"),
        ({"path": "m?x=1"}, "path", "write the query in base_url"),
        ({"path": "m", "stream_path": "{x}"}, "stream_path", "has the unknown field {x}"),
        ({"stream_path": "m"}, "stream_path", "needs path"),
        ({"path": "m/{model}", "stream_path": "m"}, "stream_path", "write it in both or in none"),
        ({"path": "m", "stream_path": "m/{model}"}, "stream_path", "write it in both or in none"),
        ({"proxy": f"socks5://{'u' * 256}:p@h:1"}, "proxy", "of more than 255 bytes"),
        ({"count_path": "m"}, "count_path", "Chat Completions has no endpoint that counts tokens"),
        ({"dialect": "messages", "count_path": "{x}"}, "count_path", "has the unknown field {x}"),
        ({"body": {"model": "m"}}, "body.model", "is set by each request"),
        ({"body": {"a": 1}, "omit": ["a"]}, "body.a", "is in omit as well"),
        ({"body": {"a": float("inf")}}, "body", "JSON does not have"),
        ({"body": [1]}, "body", "expected a table"),
        ({"omit": [""]}, "omit[0]", "is empty"),
        ({"auth_header": "x-key"}, "auth_header", "expected one of bearer, x-api-key, api-key, x-goog-api-key"),
        ({"forward_headers": ["a b"]}, "forward_headers[0]", "is not a header name"),
        ({"forward_headers": ["Host"]}, "forward_headers[0]", "is set by the HTTP connection"),
        ({"forward_headers": ["X-Dragoman-Tag"]}, "forward_headers[0]", "is never forwarded"),
        ({"forward_headers": ["x", "Authorization"]}, "forward_headers[1]", 'use auth = "passthrough"'),
        ({"proxy": "https://h:1"}, "proxy", "expected http://HOST:PORT"),
        ({"proxy": "http://u:canary@h"}, "proxy", 'got "http://***@h"'),
        ({"proxy": "http://h:1/x"}, "proxy", "expected http://HOST:PORT"),
        ({"proxy": "http://h:x"}, "proxy", "is not a URL"),
    ],
)
def test_problems_name_the_setting(table: dict[str, Any], path: str, message: str) -> None:
    found = problems(**table)
    assert message in found[path]
    assert "canary" not in str(found)


def test_a_password_of_a_proxy_is_not_shown() -> None:
    provider = parsed(proxy="socks5://u:canary@h:1080")
    assert provider.has_own_way
    assert "canary" not in f"{provider!r}{provider.door!r}"


def test_headers_with_credentials() -> None:
    assert credential_header("X-Dragoman-Key")
    assert not credential_header("chatgpt-account-id")
    assert Door().path_of("m", stream=False) == ""
