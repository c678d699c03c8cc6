"""The product's grammars over complete streams: the content that the strictest known client would have accumulated.

Each `check` raises `GrammarError` at the first violation. `sse` and `open_responses` are independent of the product.
"""

from dragoman.stages.grammar.values import GrammarError

from .accumulated import Accumulated, Call

__all__ = ("Accumulated", "Call", "GrammarError")
