"""The codec of OpenAI Responses."""

from __future__ import annotations

from dragoman.dialects import Dialect
from dragoman.dialects.codec import Codec
from dragoman.dialects.openai.error_envelope import write_failure
from dragoman.dialects.responses.reply.read import read_reply, read_snapshot
from dragoman.dialects.responses.reply.usual import is_usual
from dragoman.dialects.responses.reply.write import write_reply
from dragoman.dialects.responses.reply_fields import note_service
from dragoman.dialects.responses.request.agent_items import has_agent_items
from dragoman.dialects.responses.request.read import read_request
from dragoman.dialects.responses.request.restore_reasoning import restore_reasoning
from dragoman.dialects.responses.request.write import write_request
from dragoman.dialects.responses.stream.observer import ResponsesObserver
from dragoman.dialects.responses.stream.reader import ResponsesReader
from dragoman.dialects.responses.stream.writer import ResponsesWriter
from dragoman.reply_context import ReplyContext
from dragoman.stages.grammar.responses import ResponsesGrammar


def _grammar(context: ReplyContext) -> ResponsesGrammar:
    return ResponsesGrammar(limit=context.limits.validated)


CODEC = Codec(
    Dialect.RESPONSES,
    read_request,
    write_request,
    read_reply,
    write_reply,
    note_service,
    is_usual,
    ResponsesReader,
    ResponsesWriter,
    _grammar,
    ResponsesObserver,
    write_failure,
    model_paths=(("response", "model"),),
    restore_reasoning=restore_reasoning,
    has_agent_items=has_agent_items,
    snapshot=read_snapshot,
)
