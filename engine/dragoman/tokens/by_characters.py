"""The tokens of a text by the kinds of its characters, without a vocabulary: a word, a run of digits, a line end and a
letter of another script each have their price. Fitted to o200k_base; `bench/micro/tokens.py` measures the fit.
"""

from __future__ import annotations

from collections.abc import Iterable

WHOLE = 32_768
"""Characters of a text that are all looked at; of a longer one, so many in pieces from its whole length. 1 ms."""
_PIECES = 16


def _kind(byte: int) -> str:
    character = chr(byte)
    if byte < 0x80:
        if character.isdigit():
            return "0"
        if character.isalpha():
            return "a" if character.islower() else "A"
        return "n" if character in "\r\n" else "s" if character in " \t\v\f" else "p"
    if byte < 0xC0:
        return "."  # within a character
    # What a character of several bytes begins with: accented Latin; Greek to Arabic; India and Thailand; signs; the Far
    # East; and what is beyond, as emoji.
    ends = ((0xC4, "d"), (0xE0, "l"), (0xE2, "k"), (0xE3, "q"), (0xEE, "j"), (0xF0, "q"))
    return next((kind for end, kind in ends if byte < end), "e")


_KINDS = bytes(ord(_kind(byte)) for byte in range(256))
_PRICES = {
    "a": 0.05,
    "A": 0.275,
    "0": 0.715,
    "p": 0.29,
    "n": 0.72,
    "d": 0.93,
    "l": 0.365,
    "k": 0.41,
    "q": 1.55,
    "j": 0.73,
    "e": 0.84,
    # Two in a row: a word begins; camel case; a digit in a word; punctuation behind a space; indentation.
    "sa": 0.895,
    "pa": 0.895,
    "sA": 1.075,
    "pA": 1.075,
    "aA": 0.905,
    "a0": 0.69,
    "sp": 0.69,
    "ss": 0.126,
}
_PRICED = tuple((kind.encode(), price) for kind, price in _PRICES.items())


def by_characters(texts: Iterable[str]) -> list[int]:
    """The tokens of each text, estimated: at least 1 where there is anything. Some 30 ns a character."""
    return [_estimated(text) for text in texts]


def _estimated(text: str) -> int:
    size = len(text)
    if size > WHOLE:
        piece = WHOLE // _PIECES
        step = (size - piece) // (_PIECES - 1)
        sampled = "".join([text[at : at + piece] for at in range(0, step * _PIECES, step)])
        return round(_priced(sampled) * size / len(sampled))
    return max(1, round(_priced(text))) if text else 0


def _priced(text: str) -> float:
    # Lone surrogates can stand in JSON.
    count = text.encode("utf-8", "surrogatepass").translate(_KINDS).count
    price = 0.0
    for kind, each in _PRICED:
        price += count(kind) * each
    return price
