"""The simulated upstream's other endpoints: equal requests get equal replies, bad ones an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.other_endpoints import PATHS, PNG, parse_form, reply_to
from support.forms import FORM_TYPE, form, part

REQUESTS: dict[str, dict[str, Any]] = {
    "embeddings": {"model": "m", "input": "text", "dimensions": 3},
    "completions": {"model": "m", "prompt": "text"},
    "moderations": {"input": ["a", "b"]},
    "images/generations": {"prompt": "a"},
    "images/edits": {"prompt": "a", "image": PNG},
    "images/variations": {"image": PNG},
    "audio/speech": {"input": "a"},
    "audio/transcriptions": {"file": b"x"},
    "audio/translations": {"file": b"x"},
    "rerank": {"query": "a", "documents": ["b", "a"], "top_n": 1},
}


@pytest.mark.parametrize("path", PATHS)
def test_equal_requests_get_equal_replies(path: str) -> None:
    first, second = reply_to(path, REQUESTS[path]), reply_to(path, REQUESTS[path])
    assert first == second
    assert all(first.pieces)


@pytest.mark.parametrize("path", PATHS)
def test_a_request_without_its_required_field_is_rejected(path: str) -> None:
    with pytest.raises(RequestRejected, match="Missing required parameter"):
        reply_to(path, {"model": "m"})


def test_the_size_and_the_order_are_those_of_the_request() -> None:
    (body,) = reply_to("embeddings", REQUESTS["embeddings"]).pieces
    assert len(json.loads(body)["data"][0]["embedding"]) == 3
    (body,) = reply_to("rerank", REQUESTS["rerank"]).pieces
    assert [result["index"] for result in json.loads(body)["results"]] == [1]


def test_forms_are_read() -> None:
    data = form(part("model", b"m"), part("file", b"\r\n\0\xff\n", filename="a.wav"))
    assert parse_form(FORM_TYPE, data) == {"model": "m", "file": b"\r\n\0\xff\n"}
