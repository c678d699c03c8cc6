"""The codec of each dialect: its readers, writers and facts, collected from its package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect
from dragoman.dialects.chat.reply.read import read_reply as read_chat_reply
from dragoman.dialects.chat.reply.write import write_reply as write_chat_reply
from dragoman.dialects.chat.request.read import FIELDS as CHAT_FIELDS
from dragoman.dialects.chat.request.read import read_request as read_chat_request
from dragoman.dialects.chat.request.request_usage import request_usage as request_chat_usage
from dragoman.dialects.chat.request.write import write_request as write_chat_request
from dragoman.dialects.chat.stop_and_usage import read_usage as read_chat_usage
from dragoman.dialects.chat.stream.observer import ChatObserver
from dragoman.dialects.chat.stream.reader import ChatReader
from dragoman.dialects.chat.stream.usage_remover import UsageRemover as ChatUsageRemover
from dragoman.dialects.chat.stream.validator import ChatValidator
from dragoman.dialects.chat.stream.writer import ChatWriter
from dragoman.dialects.messages.errors import write_failure as write_messages_failure
from dragoman.dialects.messages.reply.read import read_reply as read_messages_reply
from dragoman.dialects.messages.reply.write import write_reply as write_messages_reply
from dragoman.dialects.messages.request.drop_billing_line import strip_billing_line
from dragoman.dialects.messages.request.read import FIELDS as MESSAGES_FIELDS
from dragoman.dialects.messages.request.read import read_request as read_messages_request
from dragoman.dialects.messages.request.restore_reasoning import restore_reasoning as restore_messages_reasoning
from dragoman.dialects.messages.request.write import write_request as write_messages_request
from dragoman.dialects.messages.stop_and_usage import read_usage as read_messages_usage
from dragoman.dialects.messages.stream.observer import MessagesObserver
from dragoman.dialects.messages.stream.reader import MessagesReader
from dragoman.dialects.messages.stream.validator import MessagesValidator
from dragoman.dialects.messages.stream.writer import MessagesWriter
from dragoman.dialects.openai.error_envelope import write_failure as write_openai_failure
from dragoman.dialects.responses.reply.read import read_reply as read_responses_reply
from dragoman.dialects.responses.reply.write import write_reply as write_responses_reply
from dragoman.dialects.responses.request.read import FIELDS as RESPONSES_FIELDS
from dragoman.dialects.responses.request.read import read_request as read_responses_request
from dragoman.dialects.responses.request.restore_reasoning import restore_reasoning as restore_responses_reasoning
from dragoman.dialects.responses.request.write import write_request as write_responses_request
from dragoman.dialects.responses.stop_and_usage import read_usage as read_responses_usage
from dragoman.dialects.responses.stream.observer import ResponsesObserver
from dragoman.dialects.responses.stream.reader import ResponsesReader
from dragoman.dialects.responses.stream.validator import ResponsesValidator
from dragoman.dialects.responses.stream.writer import ResponsesWriter
from dragoman.dialects.shared.json_fields import REQUEST_FIELDS
from dragoman.dialects.shared.stream_base import StreamReader, StreamWriter
from dragoman.losses import Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.output_validator import Validator
from dragoman.stages.passthrough import Observer, Passthrough


@dataclass(frozen=True, slots=True)
class Codec:
    """The readers, writers and facts of one dialect."""

    dialect: Dialect
    read_request: Callable[..., Any]
    """Reads a request's JSON object as a canonical `Request`."""
    write_request: Callable[..., Any]
    """Writes a canonical `Request` as a JSON object."""
    read_reply: Callable[..., Any]
    """Reads a complete reply's JSON object as a canonical `Reply`."""
    write_reply: Callable[..., Any]
    """Writes a canonical `Reply` as a JSON object."""
    read_usage: Callable[[Any], Usage | None]
    """Reads the token counts of a reply."""
    reader: Callable[[ReplyContext], StreamReader]
    """Makes the stage that reads frames as events."""
    writer: Callable[[ReplyContext], StreamWriter]
    """Makes the stage that writes events as frames."""
    validator: Callable[[ReplyContext], Validator]
    """Makes the stage that encodes frames and checks them."""
    observer: Callable[[], Observer]
    """Makes the observer of a forwarded stream."""
    write_failure: Callable[..., tuple[int, Any]]
    """Writes an error's status and JSON object."""
    model_paths: tuple[tuple[str, ...], ...]
    """The paths at which payloads of a stream name the model."""
    prompt: tuple[str | None, str]
    """The fields of a request that hold the instructions, if there is one, and the conversation."""
    conversation: tuple[str, ...] = ("prompt_cache_key",)
    """The path at which a request may name its conversation."""
    restore_reasoning: Callable[[Any, str, Losses], bool] | None = None
    """Restores or drops the enveloped reasoning in a request of this dialect, in place, for an upstream of the same
    dialect and of the given family. Returns True if there was any. None if clients of the dialect send none back."""
    strip_billing_line: Callable[[Any, Losses], bool] | None = None
    """Removes the billing line, which only the vendor of the dialect's best-known client reads, from a request of this
    dialect, in place at the top level. Returns True if there was one. None if the dialect has no such line."""
    request_usage: Callable[[bytes, Any], bytes | None] | None = None
    """Returns the body of a request for a stream, given with its JSON object, with a request for token counts; None if
    it has one or cannot have one. None if streams of the dialect always have counts."""
    usage_remover: type[Passthrough] = Passthrough
    """The stage that forwards a stream without the counts that `request_usage` requested."""


CODECS: dict[Dialect, Codec] = {
    Dialect.CHAT: Codec(
        Dialect.CHAT,
        read_chat_request,
        write_chat_request,
        read_chat_reply,
        write_chat_reply,
        read_chat_usage,
        ChatReader,
        ChatWriter,
        ChatValidator,
        ChatObserver,
        write_openai_failure,
        model_paths=(("model",),),
        prompt=(None, "messages"),
        request_usage=request_chat_usage,
        usage_remover=ChatUsageRemover,
    ),
    Dialect.MESSAGES: Codec(
        Dialect.MESSAGES,
        read_messages_request,
        write_messages_request,
        read_messages_reply,
        write_messages_reply,
        read_messages_usage,
        MessagesReader,
        MessagesWriter,
        MessagesValidator,
        MessagesObserver,
        write_messages_failure,
        model_paths=(("message", "model"),),
        prompt=("system", "messages"),
        conversation=("metadata", "user_id"),
        restore_reasoning=restore_messages_reasoning,
        strip_billing_line=strip_billing_line,
    ),
    Dialect.RESPONSES: Codec(
        Dialect.RESPONSES,
        read_responses_request,
        write_responses_request,
        read_responses_reply,
        write_responses_reply,
        read_responses_usage,
        ResponsesReader,
        ResponsesWriter,
        ResponsesValidator,
        ResponsesObserver,
        write_openai_failure,
        model_paths=(("response", "model"),),
        prompt=("instructions", "input"),
        restore_reasoning=restore_responses_reasoning,
    ),
}

REQUEST_FIELDS.update(
    {Dialect.CHAT: CHAT_FIELDS, Dialect.MESSAGES: MESSAGES_FIELDS, Dialect.RESPONSES: RESPONSES_FIELDS}
)
