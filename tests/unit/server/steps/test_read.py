"""The body is read and parsed; one of a forwarded endpoint may be a form."""

from __future__ import annotations

import pytest

from dragoman import Dialect, DragomanError
from dragoman_server.receipt import Receipt
from dragoman_server.steps.read import parse, read, read_or_form
from support.forms import FORM_TYPE, form, part
from support.scopes import drafted, scope_of

CHAT = Dialect.CHAT


async def test_a_body_is_read_and_parsed() -> None:
    scope = scope_of(Receipt("req_1", CHAT, 7))
    draft = drafted(b'{"model":"m"}')
    await read(scope, draft)
    await parse(scope, draft)
    assert (draft.body, draft.payload) == (b'{"model":"m"}', {"model": "m"})


async def test_a_body_that_is_no_object_is_rejected() -> None:
    scope = scope_of(Receipt("req_1", CHAT, 7))
    draft = drafted(b"[1]")
    await read(scope, draft)
    with pytest.raises(DragomanError, match="object"):
        await parse(scope, draft)


async def test_a_form_is_read_up_to_its_model() -> None:
    data = form(part("model", b"m"), part("file", b"x" * 100, filename="a"))
    draft = drafted(data, content_type=FORM_TYPE)
    scope = scope_of(Receipt("req_1", CHAT, 7, endpoint="audio/transcriptions"))
    await read_or_form(scope, draft)
    assert draft.form is not None
    assert (draft.form.model, draft.payload) == ("m", {})


async def test_an_endpoint_of_json_takes_no_form() -> None:
    scope = scope_of(Receipt("req_1", CHAT, 7, endpoint="embeddings"))
    with pytest.raises(DragomanError) as caught:
        await read_or_form(scope, drafted(form(part("model", b"m")), content_type=FORM_TYPE))
    assert caught.value.failure.code == "unsupported_media_type"
