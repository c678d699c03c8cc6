"""`--watch`: which changes are reported, and when."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from dragoman_server.workers.file_watch import FileWatch, named_files, watching

CONFIG = '[providers.up]\napi_key = "file:{}"\n'


def change(path: Path, text: str) -> None:
    path.write_text(text)


def changes(watch: FileWatch, looks: int = 4) -> list[bool]:
    return [watch.changed() for _ in range(looks)]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with a secret in a file."""
    (tmp_path / "key").write_text("one")
    path = tmp_path / "dragoman.toml"
    path.write_text(CONFIG.format(tmp_path / "key"))
    return path


def test_a_change_is_reported_once_and_when_it_has_ended(config: Path) -> None:
    watch = FileWatch(config)
    assert changes(watch) == [False] * 4
    config.write_text("# 1\n")
    assert not watch.changed()
    config.write_text("# longer\n")  # still being written
    assert changes(watch) == [False, True, False, False]


def test_a_file_that_is_replaced_or_removed_has_changed(config: Path) -> None:
    watch = FileWatch(config)
    before = config.stat()
    other = config.with_name("other")
    other.write_bytes(config.read_bytes())
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(config)
    assert changes(watch) == [False, True, False, False]
    config.unlink()
    assert changes(watch) == [False, True, False, False]
    config.write_bytes(b"# back\n")
    assert changes(watch) == [False, True, False, False]


def test_a_change_that_is_taken_back_is_none(config: Path) -> None:
    watch = FileWatch(config)
    moved = config.rename(config.with_name("moved"))
    assert not watch.changed()
    moved.rename(config)
    assert changes(watch) == [False] * 4


def test_files_of_secrets_are_watched(config: Path) -> None:
    """By symbolic links too, as Kubernetes mounts them."""
    folder = config.parent
    for number in ("1", "2"):
        (folder / number).mkdir()
        (folder / number / "key").write_text(f"secret-{number}")
    (folder / "data").symlink_to("1")
    config.write_text(CONFIG.format(folder / "data" / "key"))
    watch = FileWatch(config)
    (folder / "next").symlink_to("2")
    (folder / "next").replace(folder / "data")
    assert changes(watch) == [False, True, False, False]
    # A file that is named later is watched from then on, also if it does not exist yet.
    config.write_text(CONFIG.format(folder / "later"))
    assert changes(watch) == [False, True, False, False]
    (folder / "later").write_text("secret-3")
    assert changes(watch) == [False, True, False, False]
    (folder / "2" / "key").write_text("no longer named")
    assert changes(watch) == [False] * 4


def test_the_files_of_secrets(config: Path) -> None:
    config.write_text(
        '[server]\nkeys = ["file:/run/a", "plain"]\n[providers.up]\napi_key = "file:${FOLDER}/b"\n'
        'headers = { "x-key" = "file:relative" }\n[[routes]]\nmodel = "file:${UNSET}/c"\n'
    )
    assert list(named_files(str(config), {"FOLDER": "/creds"})) == [
        "/run/a",
        "/creds/b",
        str(config.parent / "relative"),
    ]
    config.write_text("[not toml")
    assert list(named_files(str(config), {})) == []
    assert list(named_files(str(config.parent / "nowhere"), {})) == []


async def test_changes_are_reported_in_the_loop_until_the_end(config: Path) -> None:
    reported = asyncio.Event()
    async with watching(FileWatch(config), reported.set, interval=0.01):
        change(config, "# changed\n")
        await asyncio.wait_for(reported.wait(), 30)
    reported.clear()
    change(config, "# changed again\n")
    await asyncio.sleep(0.05)
    assert not reported.is_set()
    async with watching(None, reported.set):
        assert not reported.is_set()


def test_the_file_of_prices_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text('[prices]\nfile = "${DIR}/prices.toml"\n')
    assert [*named_files(str(path), {"DIR": "/x"})] == ["/x/prices.toml"]
    path.write_text('[prices]\nfile = "prices.toml"\n')
    watch = FileWatch(path)
    (tmp_path / "prices.toml").write_text("# 1")
    assert changes(watch) == [False, True, False, False]
    path.write_text("[prices]\nfile = 3\n")
    assert [*named_files(str(path), {})] == []
