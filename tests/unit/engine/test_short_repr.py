"""The `repr` of public objects is one short line."""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman.short_repr import changed_fields, short_repr


@dataclass(repr=False)
class Options:
    """Settings, of which one has no default and one is secret."""

    name: str
    size: int = 7
    models: tuple[str, ...] = ()
    other: object = None
    key: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return changed_fields(self)


def test_it_is_one_line_of_bounded_length() -> None:
    assert short_repr(Options("x"), "two\nlines", "", None, 7) == "<Options two?lines 7>"
    assert len(short_repr(Options("x"), "a" * 1000)) == 160


def test_only_changed_settings_are_shown_and_no_contents() -> None:
    assert repr(Options("x")) == "<Options name=x>"
    shown = repr(Options("x", 8, ("secret",) * 3, Options("y"), "secret"))
    assert shown == "<Options name=x size=8 models=3 items other=Options>"
