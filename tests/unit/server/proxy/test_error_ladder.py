"""The error of an exception for the client: Dragoman's own failure, nothing, or a defect without details."""

from __future__ import annotations

import errno
import json

import pytest
from aiohttp.test_utils import make_mocked_request

from dragoman import ClientRequestError, Dialect, DragomanError
from dragoman.aio import DEFECT, ClientGone
from dragoman.errors import UpstreamUnreachable
from dragoman_server.proxy.error_ladder import answer_without_receipt, failure_of, known
from dragoman_server.proxy.error_response import CLIENT_GONE, REJECTION

REQUEST = make_mocked_request("GET", "/v1/models")


@pytest.mark.parametrize("error", [ClientRequestError("model", "is required"), UpstreamUnreachable("refused")])
def test_an_error_of_dragomans_has_its_failure(error: ClientRequestError | UpstreamUnreachable) -> None:
    assert failure_of(error) is error.failure
    response = answer_without_receipt(REQUEST, Dialect.CHAT, error, "req_1")
    assert response.status == error.failure.status
    assert response[REJECTION] is error.failure
    assert response.headers["x-dragoman-request-id"] == "req_1"


@pytest.mark.parametrize("error", [ClientGone(), ConnectionResetError(), BrokenPipeError()])
def test_a_client_that_has_disconnected_has_no_failure(error: Exception) -> None:
    assert failure_of(error) is None
    assert answer_without_receipt(REQUEST, Dialect.CHAT, error, "req_1").status == CLIENT_GONE


def test_a_request_without_memory_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    error = known(MemoryError())
    assert isinstance(error, DragomanError)
    assert (error.failure.status, error.failure.reason) == (503, "overloaded")
    response = answer_without_receipt(REQUEST, Dialect.MESSAGES, MemoryError(), "req_1")
    assert isinstance(response.body, bytes)
    assert (response.status, b"not enough memory" in response.body) == (529, True)
    assert not caplog.records


def test_a_request_without_a_file_descriptor_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    """A module that is loaded at its first use is a file, too."""
    lacking = OSError(errno.EMFILE, "Too many open files", "module.py")
    response = answer_without_receipt(REQUEST, Dialect.MESSAGES, lacking, "req_1")
    assert isinstance(response.body, bytes)
    assert (response.status, b"ulimit -n" in response.body) == (529, True)
    assert not caplog.records
    other = OSError(errno.ENOENT, "No such file", "module.py")
    assert known(other) is other


def test_any_other_exception_is_a_defect_that_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    error = KeyError("a private detail")
    assert failure_of(error) == DEFECT
    assert failure_of(error) is not DEFECT
    response = answer_without_receipt(REQUEST, Dialect.MESSAGES, error, "req_1")
    assert isinstance(response.body, bytes)
    assert (response.status, json.loads(response.body)["type"]) == (500, "error")
    assert b"private" not in response.body
    assert "req_1 /v1/models failed by a defect" in caplog.text
