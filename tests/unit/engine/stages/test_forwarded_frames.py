"""Complete frames of a forwarded stream: what is observed, replaced, and where the stream ends."""

from __future__ import annotations

from dragoman import Limits
from dragoman.dialects.chat.stream.observer import ChatObserver
from dragoman.dialects.messages.stream.observer import MessagesObserver
from dragoman.errors import Failure, UpstreamProtocolError
from dragoman.reply_context import ReplyContext
from dragoman.stages.client_frames import ClientFrames
from dragoman.stages.forwarded_frames import ForwardedFrames
from dragoman.stages.observer import Observer
from dragoman.wire.frame_scanner import Edit

WHOLE_REPLY = b'data: {"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"}}]}\n\n'


def chunk(text: str) -> bytes:
    return b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % text.encode()


def refused(reply: bytes) -> bytes:
    raise UpstreamProtocolError("no reply")


def forwarded(observer: Observer | None = None, limits: Limits | None = None) -> ForwardedFrames:
    if observer is None:
        observer = ChatObserver()
        observer.observe(b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}', "")
    context = ReplyContext("m", limits=limits or Limits())
    return ForwardedFrames(observer, ClientFrames(observer, context, None), context, lambda reply: b"stream")


def observe(frames: ForwardedFrames, data: bytes) -> tuple[int, Failure | None, list[Edit]]:
    edits: list[Edit] = []
    end, fault = frames.observe(data, edits)
    return end, fault, edits


def test_a_run_of_texts_is_read_by_a_template() -> None:
    frames = forwarded()
    data = b"".join(map(chunk, ("a", "b", "c", "dd", "e")))
    assert observe(frames, data) == (len(data), None, [])
    assert (frames.deltas, frames.observer.written, frames.begun) == (5, 6, True)
    template = frames.templates.template
    assert template is not None
    assert frames.observe_run(template, chunk("f"), 0)
    assert not frames.observe_run(template, b"data: [DONE]\n\n", 0)
    assert (frames.deltas, frames.observer.written) == (6, 7)


def test_empty_frames_are_dropped_and_comments_are_forwarded() -> None:
    data = b": hi\n\n" + b"data: \n\n" + chunk("a")
    assert observe(forwarded(), data) == (len(data), None, [(6, 14, b"")])


def test_json_without_a_field_name_is_forwarded_unless_it_is_an_error() -> None:
    ignored, error = b'{"a":1}\n\n', b'{"error":{"message":"no"}}\n\n'
    frames = forwarded()
    assert observe(frames, chunk("a") + ignored) == (len(chunk("a") + ignored), None, [])
    end, fault, edits = observe(frames, chunk("b") + error)
    assert (end, edits) == (len(chunk("b")), [])
    assert fault is not None
    assert fault.message == "no"


def test_the_stream_ends_before_a_fault_and_after_the_terminal_frame() -> None:
    data = chunk("a") + b"data: {\n\n" + chunk("b")
    end, fault, _ = observe(forwarded(), data)
    assert end == len(chunk("a"))
    assert fault is not None
    end, fault, _ = observe(forwarded(MessagesObserver()), b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert end == 0  # without a stop reason
    assert fault is not None
    done = chunk("a").replace(b'"delta"', b'"finish_reason":"stop","delta"') + b"data: [DONE]\n\n"
    frames = forwarded()
    assert observe(frames, done + chunk("b")) == (len(done), None, [])
    assert frames.observer.closed


def test_a_complete_reply_is_replaced_by_its_stream() -> None:
    frames = forwarded(ChatObserver())
    assert observe(frames, WHOLE_REPLY) == (len(WHOLE_REPLY), None, [(0, len(WHOLE_REPLY), b"stream")])
    assert frames.replayed


def test_a_complete_reply_that_cannot_be_read_ends_the_stream() -> None:
    observer, context = ChatObserver(), ReplyContext("m")
    frames = ForwardedFrames(observer, ClientFrames(observer, context, None), context, refused)
    end, fault, _ = observe(frames, WHOLE_REPLY)
    assert (end, frames.replayed, frames.begun) == (0, False, False)
    assert fault is not None
    assert fault.message == "no reply"


def test_a_frame_beyond_a_limit_ends_the_stream() -> None:
    frames = forwarded(limits=Limits(sse_line=90, sse_frame=100))
    end, fault, _ = observe(frames, chunk("a") + chunk("b" * 100))
    assert end == len(chunk("a"))
    assert fault is not None
    assert "sse_line" in fault.message
