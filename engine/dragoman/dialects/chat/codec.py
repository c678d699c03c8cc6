"""The codec of Chat Completions."""

from __future__ import annotations

from typing import Any

from dragoman.dialects import Dialect
from dragoman.dialects.chat.extra_content import sign_history
from dragoman.dialects.chat.reply.read import read_reply
from dragoman.dialects.chat.reply.usual import is_usual
from dragoman.dialects.chat.reply.write import write_reply
from dragoman.dialects.chat.reply_fields import note_service
from dragoman.dialects.chat.request.read import read_request
from dragoman.dialects.chat.request.request_usage import request_usage
from dragoman.dialects.chat.request.write import write_request
from dragoman.dialects.chat.stop_and_usage import check_end
from dragoman.dialects.chat.stream.observer import ChatObserver
from dragoman.dialects.chat.stream.reader import ChatReader
from dragoman.dialects.chat.stream.usage_remover import UsageRemover
from dragoman.dialects.chat.stream.writer import ChatWriter
from dragoman.dialects.codec import Codec
from dragoman.dialects.openai.error_envelope import write_failure
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.stages.grammar.chat import ChatGrammar


def _several(body: Any) -> bool:
    return body.get("n") not in (None, 1) or bool(body.get("functions"))


def _grammar(context: ReplyContext) -> ChatGrammar:
    losses = context.losses
    return ChatGrammar(
        include_usage=context.include_usage,
        logprobs=context.logprobs,
        stops=bool(context.stops or context.sent_stops),
        usage_due=lambda: LossCode.USAGE_ESTIMATED not in losses.counts,
        limit=context.limits.validated,
    )


CODEC = Codec(
    Dialect.CHAT,
    read_request,
    write_request,
    read_reply,
    write_reply,
    note_service,
    is_usual,
    ChatReader,
    ChatWriter,
    _grammar,
    ChatObserver,
    write_failure,
    model_paths=(("model",),),
    check_end=check_end,
    sign_history=sign_history,
    request_usage=request_usage,
    several=_several,
    usage_remover=UsageRemover,
)
