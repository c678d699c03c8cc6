"""Compare the software bill of materials with one that cyclonedx-bom makes of an installed environment.

    python tests/release/compare_bill.py dist/dragoman-1.0.0.cdx.json

uv makes the first of the lock file. The environment has the packages of all extras; both tools come from the index.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
UV = Path(sys.executable).with_name("uv")


def differences(bill: Any, installed: Any) -> list[str]:
    """Return what only one of two bills has, without packages of the first for other systems and versions of Python."""
    ours = {_named(each): each for each in bill["components"]}
    theirs = {_named(each) for each in installed["components"]}
    for_others = {name for name, each in ours.items() if _has_marker(each)}
    missing, more = ours.keys() - theirs - for_others, theirs - ours.keys()
    return [
        *(f"{' '.join(each)}: in the bill, not installed" for each in sorted(missing)),
        *(f"{' '.join(each)}: installed, not in the bill" for each in sorted(more) if each[0] != "dragoman"),
    ]


def _named(component: Any) -> tuple[str, str]:
    return re.sub(r"[-_.]+", "-", component["name"]).lower(), component["version"]


def _has_marker(component: Any) -> bool:
    return any(each["name"] == "uv:package:marker" for each in component.get("properties", ()))


def installed_bill(folder: Path) -> Any:
    """Install what the lock file has into an environment below `folder`, and return its bill."""
    environment, file = folder / "environment", folder / "bill.json"
    sync = (UV, "sync", "-q", "--frozen", "--no-dev", "--all-extras", "--no-editable")
    subprocess.run(sync, cwd=ROOT, env=os.environ | {"UV_PROJECT_ENVIRONMENT": str(environment)}, check=True)
    make = (UV, "tool", "run", "-q", "--from", "cyclonedx-bom", "cyclonedx-py", "environment", "-o", file)
    subprocess.run([*make, environment / "bin" / "python"], cwd=folder, check=True)
    return json.loads(file.read_text("utf-8"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the differences. Return 1 if there are any."""
    parser = argparse.ArgumentParser(description="Compare the bill of materials with an installed environment.")
    parser.add_argument("bill", type=Path)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        found = differences(json.loads(args.bill.read_text("utf-8")), installed_bill(Path(name)))
    for line in found:
        print(line)
    print(f"{len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
