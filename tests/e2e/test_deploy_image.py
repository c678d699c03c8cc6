"""The steps of docs/deploy/Dockerfile, run in a clean folder instead of an image, and the gateway that they install."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.chroot import Chroot, can_mount
from support.deploy_files import DEPLOY, copy_context, instructions
from support.redis_server import free_port

pytestmark = pytest.mark.whole  # the build takes twenty seconds

NO_ONE = 65534
PATHS = ("/opt/dragoman", "/src", "/tmp/", "/data", "/etc/dragoman", "/run/secrets", "/image")
"""Paths of the image, which are below the clean folder here."""


def uv() -> str:
    """The folder of uv, which `python -m venv` and `pip install uv` put next to this interpreter."""
    found = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("uv is not installed")
    return str(Path(found).parent)


def python() -> str:
    """An interpreter that other users may run too."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        real = Path(candidate).resolve()
        if all(folder.stat().st_mode & 0o001 for folder in (real, *real.parents)):
            words = [candidate, "-c", "import sys; print(sys.version_info >= (3, 11))"]
            if subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() == "True":
                return candidate
    pytest.skip("there is no Python that other users may run")


def moved(text: str, root: Path) -> str:
    """A text with the image's paths below `root`."""
    # In one pass, as the root may itself be below /tmp.
    return re.sub(rf"(?<![\w.])({'|'.join(map(re.escape, PATHS))})", rf"{root}\1", text)


def variables(stage: int, root: Path) -> dict[str, str]:
    """The variables that the Dockerfile sets in a stage."""
    words = " ".join(moved(rest, root) for word, rest in instructions(stage) if word == "ENV")
    pairs = (pair.partition("=") for pair in words.split())
    return {name: value.replace("$PATH", os.environ["PATH"]) for name, _, value in pairs}


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """A folder with what the build stage makes."""
    interpreter, tool = python(), uv()
    # Not `tmp_path`, whose parents only this user may enter.
    with tempfile.TemporaryDirectory(prefix="dragoman-image-") as name:
        root = Path(name).resolve()
        root.chmod(0o755)
        for path in PATHS:
            (root / path.strip("/")).mkdir(parents=True, exist_ok=True)
        copy_context(root / "src")
        arguments = dict(rest.partition("=")[::2] for word, rest in instructions(0) if word == "ARG")
        env = {**os.environ, **variables(0, root), "EXTRAS": arguments["EXTRAS"].strip('"'), "UV_PYTHON": interpreter}
        env["PATH"] = f"{tool}{os.pathsep}{os.environ['PATH']}"
        env.pop("VIRTUAL_ENV", None)
        # The first step installs uv itself.
        steps = [rest for word, rest in instructions(0) if word == "RUN"][1:]
        assert len(steps) == 3
        for step in steps:
            done = subprocess.run(
                moved(step, root), shell=True, cwd=root / "src", env=env, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
        shutil.rmtree(root / "src")
        yield root


def status(url: str, **headers: str) -> int:
    """The status of a GET request."""
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as got:
            code: int = got.status
            return code
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_installed_gateway_serves_as_another_user(image: Path) -> None:
    port = free_port()
    text = moved((DEPLOY / "dragoman.toml").read_text("utf-8"), image)
    (image / "etc/dragoman/dragoman.toml").write_text(text)
    for name in re.findall(r"/run/secrets/(\w+)", text):
        # Nothing listens there: the gateway serves without its store too.
        secret = f"redis://127.0.0.1:{free_port()}/0" if name == "redis_url" else f"canary-{name}"
        (image / "run/secrets" / name).write_text(f"{secret}\n")
    env = {**variables(-1, image), "DRAGOMAN_HOST": "127.0.0.1", "DRAGOMAN_PORT": str(port)}
    user: dict[str, Any] = {"user": NO_ONE, "group": NO_ONE, "extra_groups": []} if os.geteuid() == 0 else {}
    command = [json.loads(rest) for word, rest in instructions() if word in ("ENTRYPOINT", "CMD")]
    words = [moved(word, image) for part in command for word in part]
    check = json.loads(next(rest for word, rest in instructions() if word == "HEALTHCHECK").partition("CMD ")[2])

    def healthy() -> bool:
        return subprocess.run(check, env=env, capture_output=True, check=False, **user).returncode == 0

    assert not healthy()
    program = str(image / "opt/dragoman/bin" / words[0])
    with subprocess.Popen(
        [program, *words[1:]], env=env, cwd=image / "data", stderr=subprocess.PIPE, **user
    ) as process:
        assert process.stderr is not None
        try:
            stated = b""
            while b"dragoman listens on" not in stated:
                line = process.stderr.readline()
                assert line, stated.decode()
                stated += line
            assert f"http://127.0.0.1:{port}" in stated.decode()
            assert healthy()
            models = f"http://127.0.0.1:{port}/v1/models"
            assert status(models, x_api_key="canary-metrics_key") == 200
            assert status(models) == 401
            process.terminate()
            stated += process.stderr.read()
            assert process.wait() == 0
        finally:
            process.kill()
    assert b"canary" not in stated
    assert b"Traceback" not in stated


def test_the_installed_files_are_not_the_processs_own(image: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to run as another user")
    words = ["find", str(image / "opt"), "-writable", "-not", "-type", "l"]
    other: dict[str, Any] = {"user": NO_ONE, "group": NO_ONE, "extra_groups": []}
    # `find` returns to the folder where it began, and the checkout may be one that only its owner enters.
    found = subprocess.run(words, cwd="/", **other, capture_output=True, text=True, check=True)
    assert found.stdout == ""
    version = subprocess.run([image / "opt/dragoman/bin/dragoman", "-V"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("dragoman ")


def test_the_root_of_the_image_is_enough(image: Path) -> None:
    """The gateway runs where there is nothing else: no shell, no other program, and no file that it may write."""
    can_mount()
    root, inside = Chroot(image / "image"), {"PATH": f"{image}/opt/dragoman/bin"}
    program = f"{image}/opt/dragoman/bin/dragoman"
    options: dict[str, Any] = {"env": inside, "user": "10001:10001", "read_only": True}
    assert root.run(program, "--version", **options).startswith("dragoman ")
    imports = "import sqlite3, ssl, zoneinfo, bz2, lzma, ctypes, redis, brotli, opentelemetry.sdk.trace"
    code = f"{imports}; ssl.create_default_context().load_verify_locations('/etc/ssl/certs/ca-certificates.crt'); "
    code += "import pwd, os; print(pwd.getpwuid(os.getuid()).pw_name, zoneinfo.ZoneInfo('Europe/Oslo').key)"
    assert root.run(f"{image}/opt/dragoman/bin/python", "-c", code, **options) == "dragoman Europe/Oslo\n"
    assert not list((image / "image").rglob("sh")), "a shell"
    demo = root.run(program, "demo", "--once", "--port", "0", "--pace", "0", **options)
    assert "wrong" not in demo
    assert "9/9" in demo
