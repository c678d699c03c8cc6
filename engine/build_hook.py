"""The build's hook: a wheel or sdist has the revision that it was built from, in a file.

The revision is that of the checkout, or DRAGOMAN_REVISION in the environment where there is no repository, as in the
build of a container image. A wheel that is built from an sdist has the sdist's file.
"""

from __future__ import annotations

import os
import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE = "dragoman_server/observability"


class RevisionHook(BuildHookInterface[Any]):
    """Adds the file of the revision. An editable install has none: its checkout moves on."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file, and add it to the files of the build."""
        root = Path(self.root)
        names = runpy.run_path(str(root / "server" / _PACKAGE / "installed_version.py"))
        if version == "editable" or (root / "server" / _PACKAGE / names["REVISION_FILE"]).exists():
            return
        revision = os.environ.get("DRAGOMAN_REVISION") or names["revision_of"](root)
        if not revision:
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / names["REVISION_FILE"]
        file.write_text(f"{revision}\n", "utf-8")
        package = f"server/{_PACKAGE}" if self.target_name == "sdist" else _PACKAGE
        build_data["force_include"][str(file)] = f"{package}/{file.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary file."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
