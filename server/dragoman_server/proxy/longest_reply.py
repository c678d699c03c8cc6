"""The longest reply of a request, which budgets reserve until the request has ended."""

from __future__ import annotations

from typing import Final, NamedTuple

from dragoman import Profile
from dragoman.wire import Json
from dragoman_server.accounts.store.options import StoreOptions

_FIELDS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""The fields of the output limit, of all dialects. In Chat the newer name comes before the older one."""
_CHOICES: Final = ("n", "best_of")
"""The fields of the number of replies."""
MODEL, DEFAULT = "the model's largest", "store.reserve_tokens"
_MOST: Final = 10**10
"""Most tokens that are reserved. Budgets are not larger."""


class LongestReply(NamedTuple):
    """The most output tokens of a request, and the field of the request or the setting that limits them."""

    tokens: int
    source: str

    @property
    def is_bound(self) -> bool:
        """True if the reply cannot be longer, unless the upstream ignores its limit."""
        return self.source != DEFAULT


def longest_reply(
    payload: Json, profile: Profile, model: str, options: StoreOptions, endpoint: str = ""
) -> LongestReply:
    """Return the longest reply of a request that was parsed.

    Without a limit in the request it is that of the options, else the model's. A forwarded `endpoint` has none then:
    not all of them generate text.
    """
    name = next((each for each in _FIELDS if _count(payload.get(each))), None)
    most = profile.max_output_tokens
    if name is not None:
        tokens = _count(payload[name])
        if most and not endpoint:
            tokens = min(tokens, most)
    elif endpoint:
        return LongestReply(0, "")
    elif options.reserve_tokens:
        name, tokens = DEFAULT, min(options.reserve_tokens, most) if most else options.reserve_tokens
    else:
        name, tokens = MODEL, most or profile.default_output(model)
    choices = max([_count(payload.get(each)) for each in _CHOICES])
    return LongestReply(min(tokens * max(1, choices), _MOST), name)


def _count(value: object) -> int:
    """Return a positive whole number, and 0 for another value."""
    return value if type(value) is int and value > 0 else 0
