"""The usual first and last frames of a Messages stream, as patterns that the validator checks without parsing them.

A match is a valid frame by the grammar in `validator.py`, whatever the stream before it; a frame without a match may be
valid too. The patterns allow ASCII without escapes in ids and model names.
"""

from __future__ import annotations

import re
from typing import Final

_COUNT: Final = rb"(?:0|[1-9][0-9]{0,17})"
_NAME: Final = rb"[ !#-\[\]-~]"
_USAGE: Final = (
    rb'"input_tokens":%(n)b,"cache_creation_input_tokens":%(n)b,"cache_read_input_tokens":%(n)b,"output_tokens":%(n)b,'
    rb'"output_tokens_details":(?:null|\{"thinking_tokens":%(n)b\}),'
    rb'"server_tool_use":(?:null|\{"web_fetch_requests":0,"web_search_requests":%(n)b\})'
) % {b"n": _COUNT}
_MESSAGE_START: Final = (
    rb'event: message_start\ndata: \{"type":"message_start","message":\{"id":"%b+","type":"message",'
    rb'"role":"assistant","model":"%b*","content":\[\],"stop_reason":null,"stop_sequence":null,"stop_details":null,'
    rb'"container":null,"usage":\{%b,"cache_creation":null,"inference_geo":null,"service_tier":(?:null|"[a-z]+")\}\}\}'
    rb"\n\n"
) % (_NAME, _NAME, _USAGE)
_BLOCK_START: Final = (
    rb'event: content_block_start\ndata: \{"type":"content_block_start","index":0,"content_block":'
    rb'\{"type":"(?:(text)","text":"","citations":null|(thinking)","thinking":"","signature":"")\}\}\n\n'
)
_BLOCK_STOP: Final = (
    rb'event: content_block_stop\ndata: \{"type":"content_block_stop","index":(0|[1-9][0-9]{0,5})\}\n\n'
)
_MESSAGE_DELTA: Final = (
    rb'event: message_delta\ndata: \{"type":"message_delta","delta":\{"stop_reason":"(end_turn|tool_use|max_tokens)",'
    rb'"stop_sequence":null,"stop_details":null,"container":null\},"usage":\{%b\}\}\n\n'
) % _USAGE
_MESSAGE_STOP: Final = rb'event: message_stop\ndata: \{"type":"message_stop"\}\n\n'

START: Final = re.compile(_MESSAGE_START + b"(?:%b)?" % _BLOCK_START)
"""`message_start`, and the start of a text (group 1) or thinking (group 2) block if one follows."""
END: Final = re.compile(b"(?:%b)?%b%b" % (_BLOCK_STOP, _MESSAGE_DELTA, _MESSAGE_STOP))
"""The stop of the last block (group 1: its index) if it comes with them, `message_delta` (group 2: the reason), and
`message_stop`."""
