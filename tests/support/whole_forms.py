"""One reply of an upstream in both forms: the stream and the whole body."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import strategies as st

from dragoman import Dialect, Direction

from .generate_upstreams import generate_streams, whole_generate
from .replies import reply_of, whole_chat, whole_messages
from .responses_upstreams import responses_streams
from .strategies import CHAT, MESSAGES_SEQUENTIAL, RESPONSES
from .upstreams import Upstream, chat_streams, messages_streams

# A call that was cut has no whole form: arguments are an object there, or at least JSON.
_CHAT = replace(CHAT, cut=False, interleave="none", kinds=("text", "reasoning", "tool"))
# A whole Chat reply has its text before its refusal, whatever came first; to Messages both are text.
_REFUSING = replace(_CHAT, kinds=("refusal", "reasoning"))
_MESSAGES = replace(MESSAGES_SEQUENTIAL, cut=False)
_RESPONSES = replace(RESPONSES, cut=False, interleave="none")


@st.composite
def both_forms(draw: st.DrawFn, row: Direction, silent: bool = False) -> tuple[Upstream, bytes]:
    """One reply as the upstream streams it and as it answers whole; `silent` is of its `Shape`."""
    if row.upstream.dialect is Dialect.CHAT:
        shape = replace(draw(st.sampled_from((_CHAT, _CHAT, _REFUSING))), silent=silent)
        upstream = draw(chat_streams(shape, quirks=False))
        whole = whole_chat(reply_of(upstream.events, "chat"))
        if upstream.notes["extras"]:
            whole["service_tier"] = "default"
        return upstream, json.dumps(whole).encode()
    if row.upstream.dialect is Dialect.RESPONSES:
        # The last event of a stream holds the whole body.
        upstream = draw(responses_streams(replace(_RESPONSES, silent=silent), quirks=draw(st.booleans())))
        return upstream, json.dumps(upstream.notes["response"]).encode()
    if row.upstream.dialect is Dialect.GENERATE:
        upstream = draw(generate_streams(quirks=False, silent=silent))
        return upstream, json.dumps(whole_generate(upstream.data)).encode()
    upstream = draw(messages_streams(replace(_MESSAGES, silent=silent), quirks=False))
    return upstream, json.dumps(whole_messages(reply_of(upstream.events, "messages"))).encode()
