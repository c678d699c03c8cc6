"""Credentials in headers, URLs and bodies of captures."""

from __future__ import annotations

import json

import pytest

from dragoman_server.observability.captures.mask_secrets import header_of, mask_secrets, shown_headers, shown_target

KEY = "canary-key-7f3a"


def masked(body: bytes, *secrets: str) -> bytes:
    """The body after its secrets were masked. Its length stays."""
    buffer = bytearray(body)
    mask_secrets(buffer, secrets)
    assert len(buffer) == len(body)
    return bytes(buffer)


def test_headers_keep_their_values_only_if_they_are_known() -> None:
    sent = [
        ("Authorization", f"Bearer {KEY}"),
        ("X-Api-Key", KEY),
        ("Cookie", KEY),
        ("X-Dragoman-Sender", KEY),
        ("X-Of-Ours", KEY),
        ("Openai-Organization", KEY),
        ("Content-Type", "application/json"),
        ("X-RateLimit-Limit-Requests", "5"),
        ("User-Agent", f"sdk {KEY}"),
        ("X-Request-Id", "sk-abcdefghij"),
    ]
    found = shown_headers(sent, (KEY,))
    assert [value for _, value in found] == [*["***"] * 6, "application/json", "5", "sdk ***", "sk-***"]
    assert [name for name, _ in found] == [name.lower() for name, _ in sent]
    assert header_of(found, "content-type") == "application/json"
    assert header_of(found, "x-none") == ""


def test_urls_have_no_values_of_queries_and_no_passwords() -> None:
    assert shown_target("https://u:p@host/v1?key=abc&beta=true", ()) == "https://***@host/v1?key=***&beta=true"
    assert shown_target(f"/v1/{KEY}", (KEY,)) == "/v1/***"


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        "sk-ant-api03-abcdefghij",
        "sk-dragoman-abcdefgh-0123456789",
        "AIzaSyA1234567890abcd",
        "eyJhbGciOi.eyJzdWIi.abc",
        "ghp_abcdefghij123",
    ],
)
def test_keys_in_bodies_are_overwritten(text: str) -> None:
    value = {"content": f'my key:\n"{text}"\\', "other": ["a", 5]}
    for body in (json.dumps(value).encode(), b"data: " + json.dumps(value).encode() + b"\n\n"):
        found = masked(body, KEY)
        assert text.encode() not in found
        assert b"***" in found
        kept = json.loads(found.removeprefix(b"data: "))
        assert kept["other"] == value["other"]
        assert len(kept["content"]) == len(str(value["content"]))
    assert text.encode() not in masked(f"<p>{text}</p>".encode(), KEY)


@pytest.mark.parametrize("name", ["api_key", "authorization", "x-api-key", "client_secret", "Password"])
def test_a_member_named_like_a_credential_is_overwritten(name: str) -> None:
    body = json.dumps({"tools": [{"headers": {name: 'hidd\u00e9n "quux"\n'}, "api_key": 1234567890}]}).encode()
    found = masked(body)
    assert b"hidd" not in found
    assert b"quux" not in found
    assert json.loads(found)["tools"][0]["api_key"] == 1111111111


def test_an_escape_before_a_key_is_no_part_of_it() -> None:
    for escape in (rb"\n", rb"\u0022", rb"\\", rb"\""):
        found = masked(b'{"content": "my key:' + escape + b'sk-abcdefghij"}')
        assert b"abcdefghij" not in found
        json.loads(found)


@pytest.mark.parametrize(
    "text",
    [
        "a key is a token, see https://example.com/?q=hello#top",
        "Bearer token is missing",
        "the secret of the password",
        "task-list, desk-lamp",
    ],
)
def test_other_texts_stay(text: str) -> None:
    body = json.dumps({"content": text, "max_tokens": 5}).encode()
    assert masked(body) == body


@pytest.mark.parametrize("name", ["delta", "text", "content", "partial_json", "arguments", "reasoning_content"])
@pytest.mark.parametrize("secret", [KEY, "sk-abcdefghijklm"])
def test_a_key_in_pieces_is_overwritten(name: str, secret: str) -> None:
    pieces = ["my key: ", secret[:5], secret[5:6], "", secret[6:], " \n end"]
    frames = [b"data: " + json.dumps({"index": 0, name: piece}).encode() + b"\n\n" for piece in pieces]
    found = masked(b"".join(frames), KEY)
    texts = [json.loads(line[6:])[name] for line in found.splitlines() if line]
    assert [len(text) for text in texts] == [len(piece) for piece in pieces]
    assert secret not in "".join(texts)
    assert texts[0] == pieces[0]
    assert texts[-1] == pieces[-1]
    assert texts[4] == "*" * len(pieces[4])


def test_secrets_with_quotes_are_found_in_json() -> None:
    secret = 'pass"word\\with\u00e9'
    for ascii_only in (False, True):
        body = json.dumps({"content": secret}, ensure_ascii=ascii_only).encode()
        found = masked(body, secret)
        if not ascii_only:
            assert b"word" not in found
        json.loads(found)


def test_the_lengths_of_secrets_are_returned() -> None:
    buffer = bytearray(f"{KEY} other-secret-1 {KEY}".encode())
    assert mask_secrets(buffer, (KEY, "other-secret-1", "not-there-at-all")) == {len(KEY), 14}


def test_a_cut_body_can_be_masked_at_any_cut() -> None:
    body = json.dumps({"authorization": 'Bearer "abc\u00e9123456', "content": f"sk-abcdefghij\\ {KEY}"}).encode()
    for cut in range(len(body)):
        assert b"abcdefghij" not in masked(body[:cut], KEY)
