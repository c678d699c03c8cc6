"""The whole Dockerfile, step by step, in a root that debootstrap makes, and its image as a container runs it.

Debian's Python stands for that of the image `python:…-slim`, which is Debian with a Python of its own. Skipped without
root, debootstrap or a mirror of Debian, and without DRAGOMAN_IMAGE=1: it takes two to four minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from oracles.simulator import strict_simulator
from support.chroot import Chroot, can_mount
from support.deploy_files import copy_context, instructions, size
from support.gateways import served
from support.programs import installed
from support.redis_server import free_port

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(os.environ.get("DRAGOMAN_IMAGE") != "1", reason="DRAGOMAN_IMAGE=1 builds the image's root"),
]
SUITE, MIRROR = "trixie", "http://deb.debian.org/debian"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
LARGEST = 120 * 10**6
"""Most bytes of the image's files."""
PATIENCE = 900
CONFIG = """\
[usage]
kind = "sqlite"
path = "/data/usage.db"
[store]
kind = "sqlite"
path = "/data/accounts.db"
[capture]
directory = "/data/captures"
[providers.up]
dialect = "chat"
base_url = "{url}/v1"
[[routes]]
model = "*"
provider = "up"
"""


def debian(folder: Path) -> Chroot:
    """A root of Debian with Python and pip, which have the names of the image."""
    packages = "--include=ca-certificates,python3,python3-venv"
    words = ["debootstrap", "--variant=minbase", packages, SUITE, str(folder), MIRROR]
    env = {**os.environ, "DPKG_FORCE": "unsafe-io"}  # without a flush of the disk for each file
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        pytest.skip(f"debootstrap fails here: {(done.stdout + done.stderr).strip().splitlines()[-1]}")
    root = Chroot(folder)
    # The machine's own: of a resolver, and of a proxy to the package index.
    for name in (CERTIFICATES, "/etc/resolv.conf"):
        shutil.copy(name, folder / name.lstrip("/"))
    root.run("/usr/bin/python3", "-m", "venv", "/usr/local", env={"PATH": "/usr/bin:/bin"})
    return root


def expanded(text: str, env: dict[str, str]) -> str:
    return text.replace("$PATH", env["PATH"])


def settings(text: str, env: dict[str, str]) -> dict[str, str]:
    """The variables of an instruction ENV or ARG."""
    pairs = (word.partition("=") for word in shlex.split(text))
    return {name: expanded(value, env) for name, is_set, value in pairs if is_set}


def build(root: Chroot) -> None:
    """Run the instructions of the first stage."""
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "PIP_CERT": CERTIFICATES,
        "SSL_CERT_FILE": CERTIFICATES,
    }
    folder = "/"
    for word, rest in instructions(0)[1:]:
        if word in ("ENV", "ARG"):
            env |= settings(rest, env)
        elif word == "WORKDIR":
            folder = rest
            (root.path / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            copy_context(root.path / folder.lstrip("/"))
        else:
            assert word == "RUN"
            root.run("/bin/sh", "-c", f"cd {folder} && {rest}", env=env)


def image_of(built: Chroot, folder: Path) -> tuple[Chroot, dict[str, str], dict[str, str]]:
    """The root of the last stage, its variables, and its other instructions."""
    env = {"PATH": ""}
    others = {}
    for word, rest in instructions():
        if word == "COPY":
            *options, source, target = rest.split()
            place = folder / target.lstrip("/")
            shutil.copytree(built.path / source.lstrip("/"), place, symlinks=True, dirs_exist_ok=True)
            for owner in (int(found[1]) for option in options if (found := re.match(r"--chown=(\d+):", option))):
                os.chown(place, owner, owner)
        elif word == "ENV":
            env |= settings(rest, env)
        else:
            others[word] = rest
    assert others["FROM"] == "scratch"
    return Chroot(folder), env, others


@pytest.fixture(scope="module")
def image() -> Iterator[tuple[Chroot, dict[str, str], dict[str, str]]]:
    can_mount()
    installed("debootstrap")
    with tempfile.TemporaryDirectory(prefix="dragoman-root-") as name:
        above = Path(name)
        above.chmod(0o755)
        (above / "image").mkdir()
        built = debian(above / "build")
        build(built)
        yield image_of(built, above / "image")


def files(root: Path) -> dict[str, int]:
    """The files of a root, but for those of mounts, with the times of their last change."""
    return {
        str(path.relative_to(root)): path.lstat().st_mtime_ns
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] not in ("proc", "dev", "data", "etc")
    }


def owner_of(pid: int) -> str:
    """The user that a process runs as."""
    found = re.search(r"^Uid:\t(\d+)", Path(f"/proc/{pid}/status").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


async def test_the_container_serves_from_a_read_only_root(image: tuple[Chroot, dict[str, str], dict[str, str]]) -> None:
    root, env, others = image
    assert size(root.path) < LARGEST, f"the image has {size(root.path) / 1e6:.1f} MB"
    (root.path / "etc/dragoman").mkdir(exist_ok=True)
    port = free_port()
    env |= {"DRAGOMAN_HOST": "127.0.0.1", "DRAGOMAN_PORT": str(port)}
    options: dict[str, Any] = {"env": env, "user": others["USER"], "read_only": True, "volumes": [others["VOLUME"]]}
    check = json.loads(others["HEALTHCHECK"].partition("CMD ")[2])
    command = [*json.loads(others["ENTRYPOINT"]), *json.loads(others["CMD"])]
    before = files(root.path)
    async with served(strict_simulator()) as (url, _):
        (root.path / "etc/dragoman/dragoman.toml").write_text(CONFIG.format(url=url))
        key = root.run("/opt/dragoman/bin/dragoman", "keys", "add", "alice", "-c", command[-1], **options).strip()
        words = root.words(f"/opt/dragoman/bin/{command[0]}", *command[1:], **options)
        process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        try:
            async with asyncio.timeout(PATIENCE):
                stated = b""
                while b"dragoman listens on" not in stated:
                    line = await process.stderr.readline()
                    assert line, stated.decode()
                    stated += line
                await asyncio.to_thread(root.run, f"/opt/dragoman/bin/{check[0]}", *check[1:], **options)
                assert owner_of(process.pid) == others["USER"].partition(":")[0]
                body = {"model": "sim-text", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 9}
                async with (
                    ClientSession(headers={"x-api-key": key}) as session,
                    session.post(f"http://127.0.0.1:{port}/v1/messages", json=body) as response,
                ):
                    assert "You said: Hello!" in await response.text()
                process.terminate()
                stated += await process.stderr.read()
                assert await process.wait() == 0, stated.decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert b"Read-only" not in stated
    assert b"Traceback" not in stated
    assert files(root.path) == before, "only the volume is written"
    assert {"usage.db", "accounts.db"} <= {path.name for path in (root.path / "data").iterdir()}
    rows = root.run("/opt/dragoman/bin/dragoman", "usage", "--json", "-c", command[-1], **options)
    assert [row["key"] for row in json.loads(rows)["data"]] == ["alice"]


def test_the_process_owns_no_file_of_the_image(image: tuple[Chroot, dict[str, str], dict[str, str]]) -> None:
    root, _, others = image
    user = int(others["USER"].partition(":")[0])
    found = [path for path in root.path.rglob("*") if not path.is_symlink() and path.lstat().st_uid == user]
    assert {path.relative_to(root.path).parts[0] for path in found} <= {"data"}
    writable = [path for path in root.path.rglob("*") if not path.is_symlink() and path.lstat().st_mode & 0o002]
    assert [path.relative_to(root.path).parts[0] for path in writable if "dev" not in path.parts] == ["tmp"]
