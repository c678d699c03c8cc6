"""Requests to providers: only one with a credential or a proxy of its own gets a request of its own kind."""

from __future__ import annotations

from dataclasses import replace

from dragoman import Dialect
from dragoman.aio import Timeouts, UpstreamRequest
from dragoman_server.config.credential_options import CredentialOptions
from dragoman_server.config.door import Door
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.provider_request import ProviderRequest, request_to

PLAIN = Provider("p", Dialect.CHAT, "http://h/v1")


def made(provider: Provider) -> UpstreamRequest:
    return request_to(provider, "http://h/v1/x", {"a": "b"}, b"{}", True, Timeouts(), "GET")


def test_other_providers_have_plain_requests() -> None:
    plain = made(replace(PLAIN, door=Door(path="{model}", omit=("x",))))
    assert type(plain) is UpstreamRequest
    assert plain == UpstreamRequest("http://h/v1/x", {"a": "b"}, b"{}", True, Timeouts(), "GET")


def test_a_request_keeps_its_provider_when_it_is_changed() -> None:
    for provider in (
        replace(PLAIN, door=Door(proxy="http://u:canary@h:1")),
        replace(PLAIN, credential=CredentialOptions(file="/canary")),
    ):
        request = replace(made(provider), body=b"[]")
        assert isinstance(request, ProviderRequest)
        assert request.provider is provider
        assert (request.body, request.method, request.stream) == (b"[]", "GET", True)
        assert "canary" not in repr(request)
