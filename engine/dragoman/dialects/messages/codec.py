"""The codec of Anthropic Messages."""

from __future__ import annotations

from dragoman.dialects import Dialect
from dragoman.dialects.codec import Codec
from dragoman.dialects.messages.block_types import join_block
from dragoman.dialects.messages.errors import write_failure
from dragoman.dialects.messages.reply.read import read_reply
from dragoman.dialects.messages.reply.usual import is_usual
from dragoman.dialects.messages.reply.write import write_reply
from dragoman.dialects.messages.reply_fields import note_service
from dragoman.dialects.messages.request.drop_billing_line import strip_billing_line
from dragoman.dialects.messages.request.read import read_request
from dragoman.dialects.messages.request.restore_reasoning import restore_reasoning
from dragoman.dialects.messages.request.write import write_request
from dragoman.dialects.messages.stop_and_usage import check_end
from dragoman.dialects.messages.stream.observer import MessagesObserver
from dragoman.dialects.messages.stream.reader import MessagesReader
from dragoman.dialects.messages.stream.writer import MessagesWriter
from dragoman.reply_context import ReplyContext
from dragoman.stages.grammar.messages import MessagesGrammar


def _grammar(context: ReplyContext) -> MessagesGrammar:
    overlapping = context.knobs.block_order == "interleave"
    return MessagesGrammar(overlapping=overlapping, limit=context.limits.validated)


CODEC = Codec(
    Dialect.MESSAGES,
    read_request,
    write_request,
    read_reply,
    write_reply,
    note_service,
    is_usual,
    MessagesReader,
    MessagesWriter,
    _grammar,
    MessagesObserver,
    write_failure,
    model_paths=(("message", "model"),),
    conversation=("metadata", "user_id"),
    restore_reasoning=restore_reasoning,
    strip_billing_line=strip_billing_line,
    check_end=check_end,
    join_block=join_block,
)
