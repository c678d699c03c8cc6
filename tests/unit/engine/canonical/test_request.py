"""A tool choice pairs the names of its tools with their namespaces."""

from __future__ import annotations

from dragoman.canonical.request import ToolChoice


def test_names_have_their_namespaces() -> None:
    assert ToolChoice("allowed", (), ["a", "b"], namespaces=["n", None]).named() == [("a", "n"), ("b", None)]


def test_without_namespaces_names_have_none() -> None:
    assert ToolChoice("auto").named() == []
    assert ToolChoice("tool", (), ["a"]).named() == [("a", None)]
