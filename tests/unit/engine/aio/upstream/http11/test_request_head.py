"""The heads of requests: where they go, which lines are the connection's own, and what is never sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio.upstream.http11.request_head import Origin, RequestHeadEncoder, parse_url, request_head
from dragoman.errors import UpstreamUnreachable

START = "POST /v1 HTTP/1.1\r\nhost: h\r\n"


@pytest.mark.parametrize(
    ("url", "origin", "target", "host"),
    [
        ("http://h/v1/x", Origin(False, "h", 80), "/v1/x", "h"),
        ("HTTPS://H.example/v1", Origin(True, "h.example", 443), "/v1", "h.example"),
        ("https://h:443/v1", Origin(True, "h", 443), "/v1", "h"),
        ("http://h:443/v1", Origin(False, "h", 443), "/v1", "h:443"),
        ("https://h:8443", Origin(True, "h", 8443), "/", "h:8443"),
        ("http://h?a=b", Origin(False, "h", 80), "/?a=b", "h"),
        ("http://h/a?b=c&beta=true#part", Origin(False, "h", 80), "/a?b=c&beta=true", "h"),
        ("http://127.0.0.1:9/", Origin(False, "127.0.0.1", 9), "/", "127.0.0.1:9"),
        ("http://[::1]:9/v1", Origin(False, "::1", 9), "/v1", "[::1]:9"),
        ("http://[::1]/v1", Origin(False, "::1", 80), "/v1", "[::1]"),
        ("http://[fe80::1%eth0]:9/v1", Origin(False, "fe80::1%eth0", 9), "/v1", "[fe80::1]:9"),
        ("http://bücher.example/v1", Origin(False, "xn--bcher-kva.example", 80), "/v1", "xn--bcher-kva.example"),
        ("http://h/a b/é?q=ü x%20", Origin(False, "h", 80), "/a%20b/%C3%A9?q=%C3%BC%20x%20", "h"),
        ("http://user:secret@h/v1", Origin(False, "h", 80), "/v1", "h"),
    ],
)
def test_where_a_url_leads(url: str, origin: Origin, target: str, host: str) -> None:
    assert parse_url(url) == (origin, f"POST {target} HTTP/1.1\r\nhost: {host}\r\n")


@pytest.mark.parametrize(
    "url",
    ["", "h/v1", "ftp://h/", "http://", "http:///v1", "http://h:70000/", "http://h:x/", "http://[::1/", "http://a b/"],
)
def test_the_error_of_an_invalid_url_does_not_contain_it(url: str) -> None:
    with pytest.raises(UpstreamUnreachable, match="base_url") as raised:
        parse_url(url)
    assert not url or url not in str(raised.value)


@pytest.mark.parametrize(
    ("host", "families"), [("127.0.0.1", 1), ("::1", 1), ("localhost", 0), ("h.example", 0), ("fe80::1%lo", 0)]
)
def test_an_address_needs_no_resolver(host: str, families: int) -> None:
    found = Origin(False, host, 7).literal()
    assert len(found) == families
    assert all(info[4][:2] == (host, 7) for info in found)


def test_a_whole_head() -> None:
    headers = {"content-type": "application/json", "x-api-key": "k"}
    assert request_head(START, headers, 12, stream=True) == (
        b"POST /v1 HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\nx-api-key: k\r\n"
        b"user-agent: dragoman\r\naccept: */*\r\naccept-encoding: identity\r\ncontent-length: 12\r\n\r\n"
    )


def test_whole_replies_may_be_compressed() -> None:
    assert b"\r\naccept-encoding: gzip, deflate, br, zstd\r\n" in request_head(START, {}, 0, stream=False)


def test_the_callers_headers_replace_the_defaults() -> None:
    head = request_head(START, {"User-Agent": "mine", "ACCEPT": "text/event-stream"}, 0, stream=True)
    assert head.count(b"ser-") == head.count(b"User-Agent: mine\r\n") == 1
    assert head.lower().count(b"\r\naccept: ") == 1


@pytest.mark.parametrize(
    "name", ["Host", "Content-Length", "Transfer-Encoding", "connection", "TE", "Accept-Encoding", "upgrade"]
)
def test_framing_is_never_the_callers(name: str) -> None:
    assert request_head(START, {name: "x"}, 3, stream=True) == request_head(START, {}, 3, stream=True)


@pytest.mark.parametrize("bad", ["a\r\nb: c", "a\nb", "a\rb", "a\0b", "\n", "\r\n"])
def test_nothing_breaks_out_of_its_line(bad: str) -> None:
    for headers in ({"x": bad}, {bad: "x"}, {"a": "b", "x": bad, "c": "d"}):
        with pytest.raises(ValueError, match="nothing was sent") as raised:
            request_head(START, headers, 0, stream=True)
        assert "b: c" not in str(raised.value)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=4))
def test_every_head_has_one_line_for_each_header(headers: dict[str, str]) -> None:
    try:
        head = request_head(START, headers, 5, stream=True)
    except ValueError:
        return
    lines = head.split(b"\r\n")
    assert lines[-2:] == [b"", b""]
    assert lines.index(b"") == len(lines) - 2
    assert head.count(b"\n") == head.count(b"\r") == len(lines) - 1
    assert len(lines) <= len(headers) + 8


def test_heads_are_what_each_would_be_by_itself() -> None:
    heads = RequestHeadEncoder(START)
    mine = {"x-api-key": "k"}
    for headers, length, stream in (
        ({}, 0, False),
        ({}, 7, False),
        ({}, 12345, True),
        (mine, 3, True),
        (mine, 40, True),
        ({"x-api-key": "k"}, 40, True),
        ({"x-api-key": "other"}, 40, True),
        (mine, 41, False),
    ):
        assert heads.encode(headers, length, stream=stream) == request_head(START, headers, length, stream=stream)
