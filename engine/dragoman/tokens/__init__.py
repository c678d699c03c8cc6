"""How many tokens a request has: exactly by a vocabulary if one is installed, else by its characters.

Models have vocabularies of their own and put words of their own around what they are given, so what is counted here is
an estimate for all of them; only an upstream can count exactly.
"""

from __future__ import annotations

from dragoman.tokens.by_body_size import by_body
from dragoman.tokens.by_characters import by_characters
from dragoman.tokens.by_vocabulary import VOCABULARY, by_vocabulary, installed
from dragoman.tokens.counter import Counter

__all__ = ("VOCABULARY", "Counter", "by_body", "by_characters", "by_vocabulary", "installed")
