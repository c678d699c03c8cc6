"""Requests of an ASGI server as HTTP/1.1, and responses as ASGI messages."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.aio.downstream.asgi_http import BadScope, HttpExchange, HttpResponse, target
from support.asgi import body, http_scope


def head(**fields: Any) -> bytes:
    return HttpExchange(http_scope(**fields)).head


@pytest.mark.parametrize(
    ("path", "root", "query", "expected"),
    [
        ("/v1/messages", "", b"beta=true", b"/v1/messages?beta=true"),
        ("/llm/v1/models", "/llm", b"", b"/v1/models"),
        ("/llm", "/llm", b"", b"/"),
        ("", "", b"", b"/"),
        ("/llmore/v1", "/llm", b"", b"/llmore/v1"),
        ("/v1/models", "/elsewhere", b"", b"/v1/models"),
        ("//v1/messages", "", b"", b"//v1/messages"),
        ("/v1/models/org/größe 1?#", "", b"", b"/v1/models/org/gr%C3%B6%C3%9Fe%201%3F%23"),
        ("/a\r\nx: y\0%", "", b"", b"/a%0D%0Ax:%20y%00%25"),
        ("/\udcff", "", b"", b"/%3F"),
    ],
)
def test_the_target_is_that_below_the_mount(path: str, root: str, query: bytes, expected: bytes) -> None:
    assert target(http_scope(path, root_path=root, query_string=query)) == expected


def test_the_head_has_the_headers_of_the_request_but_none_of_its_connection() -> None:
    headers = [
        (b"Host", b"example.com"),
        (b"x-api-key", b"k"),
        (b"connection", b"keep-alive, upgrade"),
        (b"keep-alive", b"timeout=5"),
        (b"upgrade", b"websocket"),
        (b"te", b"trailers"),
        (b"trailer", b"x"),
        (b"proxy-connection", b"keep-alive"),
        (b"http2-settings", b"AAAA"),
        (b"expect", b"100-Continue"),
        (b"x-twice", b"1"),
        (b"x-twice", b"2"),
        (b"content-length", b"3"),
    ]
    assert head(method="POST", headers=headers) == (
        b"POST / HTTP/1.1\r\nconnection: close\r\nhost: example.com\r\nx-api-key: k\r\nx-twice: 1\r\nx-twice: 2\r\n"
        b"content-length: 3\r\n\r\n"
    )


def test_another_expectation_is_left_to_the_application() -> None:
    assert b"\r\nexpect: tea\r\n" in head(headers=[(b"expect", b"tea")])


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": [(b"x", b"a\r\ny: b")]},
        {"headers": [(b"x", b"a\nb")]},
        {"headers": [(b"x", b"a\rb")]},
        {"headers": [(b"x", b"a\0b")]},
        {"headers": [(b"transfer-encoding:chunked", b"")]},
        {"headers": [(b"x y", b"")]},
        {"headers": [(b"", b"x")]},
        {"headers": [(b"x\r\n", b"y")]},
        {"headers": [(b"content-length", b"3"), (b"content-length", b"4")]},
        {"headers": [(b"content-length", b"+3")]},
        {"headers": [(b"content-length", b"3, 3")]},
        {"headers": [(b"content-length", b"")]},
        {"headers": [(b"content-length", b"1" * 16)]},
        {"method": "GET / HTTP/1.1\r\nx"},
        {"method": ""},
        {"query_string": b"a b"},
        {"query_string": b"a HTTP/1.1\r\nx: y"},
    ],
)
def test_what_could_end_the_head_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadScope):
        head(**fields)


def test_a_body_with_a_length_is_cut_there() -> None:
    """Its end would otherwise be a second request."""
    exchange = HttpExchange(http_scope(method="POST", headers=[(b"content-length", b"5")] * 2))
    assert exchange.head.count(b"content-length") == 1
    assert exchange.receive(body(b"abc", more=True)) == b"abc"
    assert exchange.receive(body(b"deGET / HTTP/1.1\r\n\r\n", more=True)) == b"de"
    assert exchange.receive(body(b"GET / HTTP/1.1\r\n\r\n")) == b""


def test_a_body_that_is_shorter_than_its_length_is_refused() -> None:
    exchange = HttpExchange(http_scope(method="POST", headers=[(b"content-length", b"5")]))
    with pytest.raises(BadScope, match="shorter than its content-length"):
        exchange.receive(body(b"abc"))


@pytest.mark.parametrize(
    "fields",
    [{"headers": [(b"transfer-encoding", b"gzip, chunked")]}, {"http_version": "2"}, {"http_version": "3"}],
)
def test_a_body_without_a_length_is_chunked(fields: dict[str, Any]) -> None:
    exchange = HttpExchange(http_scope(**{"method": "POST", "headers": [], **fields}))
    assert exchange.head == (b"POST / HTTP/1.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\nhost: \r\n\r\n")
    parts = [body(b"0\r\n\r\nGET /", more=True), body(b"", more=True), body(b"x" * 17), body(b"")]
    written = [exchange.receive(part) for part in parts]
    assert written == [b"a\r\n0\r\n\r\nGET /\r\n", b"", b"11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n", b"0\r\n\r\n"]


def test_a_length_decides_over_a_coding() -> None:
    """The server has decoded the body: of the two framings only the one that is written counts."""
    exchange = HttpExchange(
        http_scope(method="POST", headers=[(b"transfer-encoding", b"chunked"), (b"content-length", b"3")])
    )
    assert b"transfer-encoding" not in exchange.head
    assert exchange.receive(body(b"abcd")) == b"abc"


@pytest.mark.parametrize(("method", "version"), [("GET", "2"), ("HEAD", "2"), ("POST", "1.1"), ("GET", "1.0")])
def test_a_request_without_a_body(method: str, version: str) -> None:
    exchange = HttpExchange(http_scope(method=method, http_version=version, headers=[]))
    assert exchange.head == f"{method} / HTTP/1.1\r\nconnection: close\r\nhost: \r\n\r\n".encode()
    assert exchange.receive(body(b"ignored")) == b""


def test_a_disconnection() -> None:
    with pytest.raises(ConnectionError):
        HttpExchange(http_scope()).receive({"type": "http.disconnect"})


RESPONSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Id: 7\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
    b"Transfer-Encoding: chunked\r\nDate: today\r\nServer: aiohttp\r\nConnection: close\r\n\r\n"
)
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream"), (b"x-id", b"7"), (b"set-cookie", b"a"), (b"set-cookie", b"b")],
}


def part(data: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def answered(**fields: Any) -> HttpExchange:
    exchange = HttpExchange(http_scope(**fields))
    exchange.receive(body(b""))
    return exchange


def test_each_chunk_is_one_message_and_the_last_one_ends() -> None:
    exchange = answered()
    assert exchange.send(RESPONSE + b"1\r\na\r\n") == [START, part(b"a")]
    assert exchange.send(b"2\r\nbc\r\n") == [part(b"bc")]
    assert not exchange.ended
    assert exchange.send(b"1\r\nd\r\n0\r\n\r\n") == [part(b"d", more=False)]
    assert exchange.ended
    assert exchange.finish() == []


def test_an_end_without_a_chunk_is_a_message() -> None:
    exchange = answered()
    assert exchange.send(RESPONSE) == [START]
    assert exchange.send(b"0\r\n\r\n") == [part(b"", more=False)]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_the_split_of_the_bytes_changes_no_content(size: int) -> None:
    exchange = answered()
    data = RESPONSE + b"1\r\na\r\n11\r\n" + b"b" * 17 + b"\r\n0\r\n\r\n"
    messages = [each for at in range(0, len(data), size) for each in exchange.send(data[at : at + size])]
    assert messages[0] == START
    assert b"".join(each["body"] for each in messages[1:]) == b"a" + b"b" * 17
    assert [each["more_body"] for each in messages[1:]] == [*[True] * (len(messages) - 2), False]


def test_a_body_with_a_length_keeps_it() -> None:
    exchange = answered()
    messages = exchange.send(b"HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\nno")
    assert messages == [
        {"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"2")]},
        part(b"no", more=False),
    ]


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_a_response_without_a_body(method: str, status: int) -> None:
    length = b"" if status == 204 else b"Content-Length: 9\r\n"
    messages = answered(method=method).send(b"HTTP/1.1 %d X\r\n%b\r\n" % (status, length))
    assert [each["type"] for each in messages] == ["http.response.start", "http.response.body"]
    assert messages[1] == part(b"", more=False)


def test_interim_responses_are_dropped() -> None:
    exchange = answered()
    assert exchange.send(b"HTTP/1.1 100 Continue\r\nX-A: b\r\n\r\n") == []
    assert exchange.send(RESPONSE) == [START]
    assert not exchange.ended


@pytest.mark.parametrize(("version", "closes"), [("1.1", True), ("1.0", True), ("2", False)])
def test_a_response_before_the_end_of_the_body_ends_with_the_connection(version: str, closes: bool) -> None:
    """Until then the rest of the body is read. HTTP/2 has no such header."""
    exchange = HttpExchange(http_scope(method="POST", http_version=version, headers=[(b"content-length", b"9")]))
    start, *parts = exchange.send(b"HTTP/1.1 413 X\r\nContent-Length: 2\r\n\r\nno")
    assert ((b"connection", b"close") in start["headers"]) is closes
    assert parts == [part(b"no")]
    assert not exchange.ended
    assert exchange.finish() == [part(b"", more=False)]


def test_an_incomplete_response_has_no_end() -> None:
    exchange = answered()
    exchange.send(RESPONSE + b"1\r\na\r\n")
    assert exchange.finish() == []


def test_the_parser_is_freed() -> None:
    response = HttpResponse("GET")
    response.close()
    with pytest.raises(AssertionError):
        response.feed(b"HTTP/1.1 200 OK\r\n\r\n")
