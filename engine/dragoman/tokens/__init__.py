"""Estimates the tokens of a request: by a vocabulary if one is installed, else by its characters.

Each model has its own vocabulary and puts its own words around a prompt, so every count here is an estimate. Only an
upstream counts exactly.
"""

from __future__ import annotations

from dragoman.tokens.by_body_size import by_body
from dragoman.tokens.by_characters import by_characters
from dragoman.tokens.by_vocabulary import VOCABULARY, by_vocabulary, installed
from dragoman.tokens.counter import Counter

__all__ = ("VOCABULARY", "Counter", "by_body", "by_characters", "by_vocabulary", "installed")
