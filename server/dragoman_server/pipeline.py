"""The steps of each endpoint, in their order. A feature that is off has no step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dragoman import Dialect
from dragoman_server.draft import Draft
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services
from dragoman_server.steps.admit import admit, file_receipt
from dragoman_server.steps.compact import compact, plan_compaction
from dragoman_server.steps.complete import complete
from dragoman_server.steps.connect import (
    attach_run,
    book_begun,
    connect,
    diagnose_cache,
    expect_response,
    lower_output_cap,
    record_stream,
    trace_call,
)
from dragoman_server.steps.forward import connect_forwarded, forward_request
from dragoman_server.steps.limit import estimate, limit
from dragoman_server.steps.read import parse, read, read_or_form
from dragoman_server.steps.recognise import recognise
from dragoman_server.steps.route import route, route_forwarded
from dragoman_server.steps.translate import translate_counted, translate_request, translate_unsent

Step = Callable[[RequestScope, Draft], Awaitable[None] | None]
"""Changes the draft. It returns what to await, if anything: a coroutine costs a thousand instructions."""
Steps = tuple[Step, ...]


async def run_steps(steps: Steps, scope: RequestScope, draft: Draft) -> Draft:
    """Run the steps, and return the draft. Those after one that starts a run in the background are left out.

    Raises DragomanError for a request that is rejected; nothing was sent then.
    """
    for step in steps:
        if (rest := step(scope, draft)) is not None:
            await rest
        if draft.background is not None:
            break
    return draft


class Pipelines:
    """The steps of one configuration, by endpoint. They are put together when the first request needs them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._translated: dict[Dialect, Steps] = {}
        self._forwarded: Steps = ()

    def translated(self, client: Dialect) -> Steps:
        """Return the steps of a request that is translated and sent."""
        steps = self._translated.get(client)
        if steps is None:
            steps = self._translated[client] = _translated(self._services, client)
        return steps

    @property
    def forwarded(self) -> Steps:
        """The steps of a request to a forwarded endpoint."""
        if not self._forwarded:
            self._forwarded = _forwarded(self._services)
        return self._forwarded


def _when(on: bool, *steps: Step) -> Steps:
    return steps if on else ()


def _translated(services: Services, client: Dialect) -> Steps:
    instruments, loaded = services.instruments, services.loaded
    capture, capture_validated, capture_calls = _captures(services)
    return (
        admit,
        file_receipt,
        *capture,
        recognise,
        read,
        parse,
        route,
        *_conversation(services, client),
        translate_request,
        *capture_validated,
        *_when(instruments.usage.writes, estimate),
        *_when(loaded.named_keys, limit),
        *_when(bool(services.prompt_cache), diagnose_cache),
        connect,
        *_when(instruments.tracer is not None, trace_call),
        *capture_calls,
        *_when(not client.facts.output_cap, lower_output_cap),
        *_when(client.facts.stored, expect_response),
        *_when(loaded.config.server.ui, record_stream),
        *_when(any(each.background for each in loaded.config.providers.values()), attach_run),
        *_when(instruments.usage.keeps_begun, book_begun),
    )


def _forwarded(services: Services) -> Steps:
    capture, _, capture_calls = _captures(services)
    return (
        admit,
        file_receipt,
        *capture,
        recognise,
        read_or_form,
        route_forwarded,
        forward_request,
        *_when(services.instruments.usage.writes, estimate),
        *_when(services.loaded.named_keys, limit),
        connect_forwarded,
        *_when(services.instruments.tracer is not None, trace_call),
        *capture_calls,
        *_when(services.instruments.usage.keeps_begun, book_begun),
    )


def counted(services: Services, client: Dialect) -> Steps:
    """Return the steps of an admitted request whose tokens are counted."""
    return (recognise, read, parse, route, complete, *_conversation(services, client), translate_counted)


def explained(services: Services, client: Dialect) -> Steps:
    """Return the steps of a request that is explained, once its target is known."""
    return (*_conversation(services, client), translate_unsent)


def _conversation(services: Services, client: Dialect) -> Steps:
    """Return the steps of the Responses API before the translation."""
    if not client.facts.stored:
        return ()
    if not services.responses.stores:
        return (plan_compaction, compact)
    from dragoman_server.steps.stored import stored  # 0.5 MB of memory, for the Responses API only

    return (plan_compaction, stored, compact)


def _captures(services: Services) -> tuple[Steps, Steps, Steps]:
    """Return the steps of captures: after the admission, after the translation, and before the sending."""
    if services.instruments.captures is None:
        return (), (), ()
    from dragoman_server.steps.capture import capture, capture_calls, capture_validated  # 0.3 MB of memory

    return (capture,), (capture_validated,), (capture_calls,)
