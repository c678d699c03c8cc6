"""The usual first and last chunks of a Chat stream, as patterns that the validator checks without parsing them.

A match is valid by the grammar in `validator.py`, if the stream before it allows it; a chunk without a match may be
valid too. The patterns allow ASCII without escapes in ids and model names.
"""

from __future__ import annotations

import re
from typing import Final

_COUNT: Final = rb"(?:0|[1-9][0-9]{0,17})"
_NAME: Final = rb"[ !#-\[\]-~]"
_IDENTITY: Final = (
    rb'data: (\{"id":"%b+","object":"chat\.completion\.chunk","created":%b,"model":"%b*","choices":)'
) % (_NAME, _COUNT, _NAME)
_NO_USAGE: Final = rb'(,"usage":null)?(?:,"service_tier":"[a-z]+")?\}\n\n'
START: Final = re.compile(
    _IDENTITY
    + rb'\[\{"index":0,"delta":\{"role":"assistant","content":""\},"finish_reason":null\}\]'
    + _NO_USAGE
    + rb"(?:: keep-alive\n\n)*"
)
"""The chunk with the role, and keep-alives after it. Groups: identity, null usage if there is one."""
TEXT: Final = b'data: %b[{"index":0,"delta":{"content":"'
"""The chunk of a text up to the text, to be formatted with the identity."""
TEXT_END: Final = b'"},"finish_reason":null}]%b}\n\n'
"""The rest of it, to be formatted with the null usage if there is one."""
FINISH: Final = re.compile(rb'\[\{"index":0,"delta":\{\},"finish_reason":"(stop|length|tool_calls)"\}\]' + _NO_USAGE)
"""The rest of the finish chunk after its identity. Groups: finish reason, null usage if there is one."""
USAGE: Final = re.compile(
    rb'\[\],"usage":\{"prompt_tokens":(%(n)b),"completion_tokens":(%(n)b),"total_tokens":(%(n)b)'
    rb'(?:,"prompt_tokens_details":\{"cached_tokens":%(n)b(?:,"cache_write_tokens":%(n)b)?\})?'
    rb'(?:,"completion_tokens_details":\{"reasoning_tokens":%(n)b\})?\}\}\n\n' % {b"n": _COUNT}
)
"""The rest of the usage chunk after its identity. Groups: the counts of prompt, completion and both together."""
DONE: Final = b"data: [DONE]\n\n"
