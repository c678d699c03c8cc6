"""The body of a request: read, and parsed. A form is read as far as its model's name."""

from __future__ import annotations

from functools import partial

from dragoman import DragomanError
from dragoman.gateway import parse_body
from dragoman_server.config.forwarded_endpoints import FORM_TYPE, FORMS
from dragoman_server.draft import Draft
from dragoman_server.proxy.error_response import unsupported
from dragoman_server.proxy.long_bodies import LONG_BODY, compute
from dragoman_server.scope import RequestScope


async def read(scope: RequestScope, draft: Draft) -> None:
    """Read the whole body."""
    draft.body = body = await scope.services.bodies.read(draft.request)
    if scope.recording is not None and scope.run is None:  # a run in the background has the body of its request
        scope.recording.received(body)


async def parse(scope: RequestScope, draft: Draft) -> None:
    """Parse the body."""
    body, limits = draft.body, draft.loaded.config.server.limits
    if len(body) <= LONG_BODY:
        draft.payload = parse_body(body, limits)
    else:
        draft.payload = await compute(len(body), partial(parse_body, body, limits), scope.receipt.owner, draft.request)


async def read_or_form(scope: RequestScope, draft: Draft) -> None:
    """Read and parse a body of JSON, or read a form until its field `model` was found."""
    request, endpoint = draft.request, scope.receipt.endpoint
    if request.content_type != FORM_TYPE:
        await read(scope, draft)
        await parse(scope, draft)
        return
    if endpoint not in FORMS:
        raise DragomanError(unsupported(f"/v1/{endpoint} takes no form: send JSON"))
    limits = draft.loaded.config.server.limits
    pieces = scope.services.bodies.pieces(request, limits.upload)
    if scope.recording is not None:
        pieces = scope.recording.measured(pieces, FORM_TYPE)
    from dragoman_server.proxy.request_form import RequestForm  # 0.1 MB of memory, for forms only

    draft.form = await RequestForm.read(request, pieces, limits.upload_held)
