"""Independent judges: what a stream of bytes must be, dialect by dialect. Nothing here imports dragoman.

Each `check` reads a complete stream as its strictest known client would, raises `GrammarError` at the first violation,
and otherwise returns what that client would have accumulated.
"""

from .accumulated import Accumulated, Call, GrammarError, require

__all__ = ("Accumulated", "Call", "GrammarError", "require")
