"""Tokens in headers, and what errors and reprs show of them."""

from __future__ import annotations

import pytest

from dragoman.aio import Timeouts, UpstreamRequest
from dragoman_server.config.door import AUTH_HEADERS
from dragoman_server.config.provider import Secret
from dragoman_server.credentials.credential import (
    CredentialError,
    Grant,
    SourceError,
    TokenSource,
    key_header,
    token_of,
)

TOKEN = "canary-token-1"


class Given:
    async def fetch(self) -> Grant[Secret]:
        return Grant(Secret(TOKEN), 60.0)


@pytest.mark.parametrize("word", AUTH_HEADERS)
async def test_a_token_is_sent_in_its_header(word: str) -> None:
    source = TokenSource(Given(), word)
    grant = await source.fetch(refused=False)
    assert (grant.value, grant.seconds) == (Secret(TOKEN), 60.0)
    request = UpstreamRequest("http://h/v1", {"accept": "x"}, b"{}", False, Timeouts())
    sent = await source.authorized(request, grant.value)
    assert sent.headers == {"accept": "x", **key_header(word, TOKEN)}
    assert request.headers == {"accept": "x"}
    assert source.secrets(grant.value) == (TOKEN,)
    assert TOKEN not in f"{grant!r}{sent!r}{grant.value!r}"


def test_the_forms_of_a_header() -> None:
    assert key_header("bearer", "k") == {"authorization": "Bearer k"}
    assert key_header("x-goog-api-key", "k") == {"x-goog-api-key": "k"}


@pytest.mark.parametrize("text", ["", " \n", "a b", "a\nb", "tök", "a\x00"])
def test_what_a_header_cannot_carry_is_no_token(text: str) -> None:
    with pytest.raises(SourceError, match="the output") as caught:
        token_of(text, "the output")
    assert not text.strip() or text not in str(caught.value)


def test_white_space_around_a_token_is_removed() -> None:
    assert token_of(f" {TOKEN}\r\n", "it") == Secret(TOKEN)


def test_an_error_can_be_repeated_later() -> None:
    failure = CredentialError("providers.p.credential: it failed").failure
    assert (failure.status, failure.reason, failure.code) == (503, "credential", "credential_unavailable")
    assert failure.headers == {"retry-after": "5"}
