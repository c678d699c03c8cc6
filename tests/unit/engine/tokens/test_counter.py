"""The counted parts of a request, and the counts that are remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.canonical.parts import (
    Document,
    FileRef,
    Image,
    Inline,
    Native,
    Part,
    Reasoning,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
)
from dragoman.canonical.request import OutputFormat, Request, Tool
from dragoman.canonical.turn import Turn
from dragoman.dialects import Dialect
from dragoman.tokens.counter import Counter, PromptSize
from support.compact_turns import assistant_turn, result_turn


class Measure:
    """A token a character, and which texts were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[int]:
        self.asked += texts
        return [len(text) for text in texts]


def texts_of(*parts: Part, **fields: Any) -> list[str]:
    prompt = PromptSize(Dialect.CHAT)
    prompt.turn(Turn("user", list(parts)))
    prompt.setting(Request("chat", "m", [], **fields))
    return [text for text in prompt.texts if text]


def test_all_that_a_model_reads_is_counted_and_nothing_else() -> None:
    assert texts_of(Text("said"), Refusal("no")) == ["said", "no"]
    assert texts_of(ToolCall("call_1", "read", '{"a":1}')) == ["read", '{"a":1}']
    assert texts_of(ToolResult("call_1", "file")) == ["file"]
    assert texts_of(ToolResult("call_1", [Text("a"), ToolReference("grep")])) == ["a", "grep"]
    assert texts_of(SearchResult("url", "title", [Text("body")])) == ["url", "title", "body"]
    assert texts_of(Document(Text("inside"), name="a.txt", context="about")) == ["a.txt", "about", "inside"]
    assert texts_of(Document([Text("one"), Text("two")])) == ["one", "two"]
    assert texts_of(Reasoning("thought", proof="x" * 600)) == ["thought"]
    assert texts_of(Native("messages", "x", {"type": "x"}, "vendor_block")) == ['{"type":"x"}']


def test_tools_and_the_form_of_the_answer_are_counted() -> None:
    tool = Tool("function", "read", description="Reads.", schema={"type": "object"})
    hosted = Tool("hosted", "web_search", native={"type": "web_search"})
    form = OutputFormat("json_schema", schema={"type": "object"})
    noted = texts_of(tools=[tool, hosted], format=form)
    assert noted == ["read", "Reads.", '{"type":"object"}', "web_search", '{"type":"web_search"}', '{"type":"object"}']


def test_encrypted_reasoning_counts_by_its_size() -> None:
    sizes = []
    for part in (Reasoning("", proof="x" * 600), Reasoning("")):
        prompt = PromptSize(Dialect.RESPONSES)
        prompt.turn(Turn("assistant", [part]))
        sizes.append(prompt.size)
    assert sizes[0] - sizes[1] == 100


def test_images_and_files_count_by_their_rules_wherever_they_are() -> None:
    def size(*parts: Part) -> int:
        prompt = PromptSize(Dialect.MESSAGES)
        prompt.turn(Turn("user", list(parts)))
        return prompt.size

    image = Image(Url("https://x/a.png"))
    assert size(image) - size() == 1500
    assert size(ToolResult("c", [image, image])) - size(ToolResult("c", [])) == 3000
    assert size(Document(FileRef("file_1", "messages"))) > size()
    assert size(Document(Inline("text/plain", "aaaa" * 1000))) - size() == 750


def test_a_step_in_short_counts_as_the_turn_that_it_is_and_stays_in_short() -> None:
    stated = assistant_turn(
        (), [("thought", (), "messages", None, False, None, None)], "text", (), [("c", "read", "{}", ())]
    )
    result = result_turn((), [("c", "the file", (), False)])
    whole = Turn("assistant", [Reasoning("thought"), Text("text"), ToolCall("c", "read", "{}")])
    results = Turn("user", [ToolResult("c", "the file")])
    counter = Counter(Measure())
    short = counter.request(Request("chat", "m", [stated, result]), Dialect.CHAT)
    assert short == counter.request(Request("chat", "m", [whole, results]), Dialect.CHAT)
    assert stated.compact is not None
    assert result.compact is not None


def test_a_request_is_never_0() -> None:
    assert Counter(Measure()).request(Request("chat", "m", []), Dialect.CHAT) > 0


def test_what_was_counted_is_not_counted_again() -> None:
    measure = Measure()
    counter = Counter(measure)
    long = "a long text " * 20
    assert counter.texts(["x", long, "x", long]) == [1, len(long), 1, len(long)]
    assert measure.asked == ["x", long]
    assert counter.texts([long + "!", "x"]) == [len(long) + 1, 1]
    assert measure.asked == ["x", long, long + "!"]


def test_as_many_texts_are_remembered_as_are_to_be_kept_the_last_asked_for() -> None:
    measure = Measure()
    counter = Counter(measure, keep=3)
    counter.texts(["a", "b", "c"])
    counter.texts(["a", "d"])
    assert len(counter) == 3
    counter.texts(["c", "a", "d"])
    assert measure.asked == ["a", "b", "c", "d"]
    counter.texts(["b"])
    assert measure.asked[-1] == "b"
    assert sum(counter.texts([str(number) for number in range(10)])) == 10
    assert len(counter) == 3
