"""The build hook of the optional compiled wheel: mypyc compiles a part of the engine to C extensions.

`DRAGOMAN_COMPILED=1 uv build --wheel` builds it. Without the variable, and in editable installs, the hook does nothing
and the wheel is pure Python. A compiled wheel holds the sources too, for tracebacks and the modules that stay
interpreted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = (
    "canonical/events.py",
    "canonical/reply_events.py",
    "dialects/chat/",
    "dialects/convert_request.py",
    "dialects/messages/",
    "dialects/openai/",
    "dialects/responses/",
    "dialects/shared/",
    "reasoning/",
    "reply_context.py",
    "stages/",
    "tools/",
    "translate_request.py",
    "translation.py",
    "wire/",
)
"""The modules and packages that are compiled: all that a chunk, a request or a reply passes on its common way.

The others stay interpreted. `aio/` gains nothing. The properties of compact turns replace slots of `Turn`, which mypyc
does not allow; so `canonical/request.py` and `compact_turns.py` are left out, and instances of their classes are not
checked at run time. `losses.py` has an enumeration with a `__new__` of its own, which fails when compiled. Errors,
limits, knobs and profiles are data that is also copied and pickled. The rest (`policies/`,
`tokens/`, `dialects/errors/`) is off by default or rarely run.
"""


class CompiledWheel(BuildHookInterface[Any]):
    """Compiles the engine into the wheel if the environment variable DRAGOMAN_COMPILED is set."""

    def dependencies(self) -> list[str]:
        """Returns what must be installed for the build: mypyc, and the typed packages that the engine imports."""
        needed = ["mypy[mypyc]>=2.4,<2.5", "multidict>=6.5", "orjson>=3.11"]
        return needed if os.environ.get("DRAGOMAN_COMPILED") else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, and adds the extensions to the files of the wheel."""
        if not os.environ.get("DRAGOMAN_COMPILED") or version == "editable":
            return
        root = Path(self.root)
        for path in compile_engine(root, root / "build" / "compiled"):
            build_data["force_include"][str(path)] = path.relative_to(root / "build" / "compiled" / "lib").as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def compile_engine(root: Path, build: Path) -> list[Path]:
    """Compiles the engine of the checkout `root` in the folder `build`. Returns the extensions, below `build`/lib."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    engine = root / "engine" / "dragoman"
    sources = [str(path.relative_to(root)) for path in sorted(engine.rglob("*.py")) if _is_compiled(path, engine)]
    extensions = mypycify(
        [f"--cache-dir={build / 'mypy'}", *sources],
        opt_level="1",
        debug_level="0",
        multi_file=True,  # a third of the time of one large file, and it works with ccache
        target_dir=str(build / "c"),
        group_name="dragoman",
    )
    _fix_slices(build / "c" / "bytes_ops.c")
    distribution = Distribution({"name": "dragoman", "ext_modules": extensions})
    command = distribution.get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(build / "lib"), str(build / "temp")
    command.ensure_finalized()
    command.run()
    return [Path(path) for path in command.get_outputs()]


def _fix_slices(path: Path) -> None:
    """Corrects mypyc's runtime: a slice of bytes whose start is after its end raises SystemError, and must be empty."""
    code = path.read_text()
    wrong = "Py_ssize_t slice_len = endn - startn;"
    if wrong not in code:
        raise RuntimeError(
            f"{path.name} of this mypyc is another; if a slice b'abc'[2:1] is empty, delete this function"
        )
    path.write_text(code.replace(wrong, "Py_ssize_t slice_len = endn > startn ? endn - startn : 0;"))


def _is_compiled(path: Path, engine: Path) -> bool:
    return path.name != "__init__.py" and path.relative_to(engine).as_posix().startswith(COMPILED)
