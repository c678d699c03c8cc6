"""`DRAGOMAN_RECORDED=… python -m recorded`: judge recorded traffic, and print its totals and what is wrong.

Run it in `tests/`. `--write` writes docs/reference/recorded-traffic.md.
"""

from __future__ import annotations

import argparse
import sys

from recorded.extract import ENVIRONMENT, checkouts
from recorded.totals import PAGE, Totals, page, run


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="recorded", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write docs/reference/recorded-traffic.md")
    parser.add_argument("--limit", type=int, default=0, help="judge every Nth exchange only (default: all)")
    given = parser.parse_args()
    if not (folders := checkouts()):
        parser.error(f"{ENVIRONMENT} names no checkout")
    totals: Totals = run(folders, every=max(1, given.limit))
    for line in totals.lines():
        print(line)
    print(page(totals))
    if given.write:
        PAGE.write_text(page(totals), "utf-8")
    return int(bool(totals.wrong or totals.silent))


if __name__ == "__main__":
    sys.exit(main())
