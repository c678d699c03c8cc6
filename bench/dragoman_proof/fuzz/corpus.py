"""The inputs that are kept: one archive for each target, in the checkout."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

FOLDER = Path(__file__).parent / "corpus"
MOST_BYTES = 400_000
"""Most bytes of one archive: all of them stay below 5 MB."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def kept(name: str) -> list[bytes]:
    """Return the inputs of a target, the shortest first."""
    path = FOLDER / f"{name}.zip"
    if not path.exists():
        return []
    with ZipFile(path) as archive:
        return [archive.read(entry) for entry in archive.infolist()]


def keep(name: str, inputs: Iterable[bytes], folder: Path = FOLDER) -> int:
    """Keep inputs, the shortest first, in an archive that is the same for the same inputs. Return their number."""
    folder.mkdir(exist_ok=True)
    count, path = 0, folder / f"{name}.zip"
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        for data in sorted(set(inputs), key=lambda data: (len(data), data)):
            if archive.start_dir + len(data) > MOST_BYTES:
                break
            archive.writestr(ZipInfo(sha256(data).hexdigest()[:16], _EPOCH), data, ZIP_DEFLATED, 9)
            count += 1
    return count


def write_all(folder: Path, inputs: Iterable[bytes]) -> None:
    """Write each input to a file of its own, as libFuzzer reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / sha256(data).hexdigest()[:40]).write_bytes(data)


def read_all(folder: Path) -> list[bytes]:
    """Return the inputs of a folder."""
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()]
