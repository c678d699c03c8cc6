"""A run is written whole and once."""

from __future__ import annotations

from dragoman.aio import EventLog, LogBudget
from dragoman_server.proxy.runs.interface import Change, Entry, RunId
from dragoman_server.proxy.runs.own_run import ENTRIES_AT_ONCE, ENTRY_BYTES, OwnRun

NAME = RunId("me", "resp_1")


def own_run(log: EventLog | None) -> OwnRun:
    run = OwnRun(NAME, lambda _, what, data: b"<%b:%b>" % (what.encode(), data), lambda _: None)
    run.log = log
    return run


def test_events_are_taken_once_and_stay_until_they_are_written() -> None:
    log = EventLog(1 << 20)
    run = own_run(log)
    assert not run.has_news
    assert run.change() == Change(NAME)
    log.append(b"a\n\n")
    log.append(b"b\n\n")
    assert run.has_news
    first = run.change()
    assert first == Change(NAME, 0, (Entry(2, 2, b"<2:a\n\nb\n\n>"),))
    log.append(b"c\n\n")
    second = run.change()  # the first was not written, as far as is known
    assert second.entries == (*first.entries, Entry(3, 1, b"<3:c\n\n>"))
    run.written(second, None)
    assert not run.has_news
    assert run.change() == Change(NAME)


def test_an_entry_has_so_many_bytes() -> None:
    log = EventLog(1 << 20)
    run = own_run(log)
    for _ in range(5):
        log.append(b"x" * (ENTRY_BYTES // 2))
    assert [(entry.end, entry.events) for entry in run.change().entries] == [(2, 2), (4, 2), (5, 1)]


def test_the_end_is_written_with_the_last_events() -> None:
    log = EventLog(1 << 30)
    run = own_run(log)
    for _ in range(ENTRIES_AT_ONCE * 2 + 1):
        log.append(b"x" * ENTRY_BYTES)
    run.end(b"", 5.0)
    written = []
    while run.has_news:
        change = run.change()
        run.written(change, run.state)
        written.append((len(change.entries), change.kept))
    assert written == [(ENTRIES_AT_ONCE, None), (ENTRIES_AT_ONCE, None), (1, 5.0)]


def test_what_the_log_drops_is_dropped() -> None:
    log = EventLog(10, LogBudget(100))
    run = own_run(log)
    for number in range(5):
        log.append(b"%d\n\n" % number)
    assert run.change() == Change(NAME, 2, (Entry(5, 3, b"<5:2\n\n3\n\n4\n\n>"),))
    log.append(b"x" * 10)
    assert [entry.end for entry in run.change().entries] == [6], "an entry that is not needed any more is not sent"
    run.written(run.change(), None)
    log.close()
    log.clear()
    assert run.has_news
    assert run.change() == Change(NAME, 6)
    run.written(run.change(), None)
    assert not run.has_news


def test_the_last_of_several_states_is_written() -> None:
    run = own_run(None)
    run.state = b"queued"
    change, state = run.change(), run.state
    assert change.state == b"<state:queued>"
    run.state = b"done"
    run.written(change, state)
    assert run.change().state == b"<state:done>"
    run.end(b"", 5.0)
    run.add_last(7, b"end\n\n")
    change = run.change()
    assert change == Change(NAME, 0, (Entry(8, 1, b"<8:end\n\n>"),), b"", 5.0)
    assert run.has_news
    run.written(change, run.state)
    assert not run.has_news
    assert run.is_written
    assert run.change() == Change(NAME), "its time is not extended"


def test_what_another_process_attaches_by_is_written_once() -> None:
    run = OwnRun(NAME, lambda _, what, data: b"<%b:%b>" % (what.encode(), data), lambda _: None)
    run.attach = b"how"
    assert run.has_news
    change = run.change()
    assert change.attach == b"<attach:how>"
    run.attach = newer = b"".join((b"how", b" else"))
    run.written(change, None)
    assert (run.attach, run.is_attached) == (newer, False), "it was set while the other was written"
    change = run.change()
    run.written(change, None)
    assert run.change() == Change(NAME)
    assert not run.has_news
    assert run.is_attached


def test_a_run_that_was_taken_goes_on_after_the_events_that_are_stored() -> None:
    run, log = OwnRun(NAME, lambda _, __, data: data, lambda _: None), EventLog(100)
    log.first = log.end = 3
    log.append(b"3\n\n")
    run.resume(log, 3)
    assert not run.has_news
    log.append(b"4\n\n")
    assert run.change() == Change(NAME, 3, (Entry(5, 1, b"4\n\n"),))
