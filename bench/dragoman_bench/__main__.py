"""`python -m dragoman_bench`."""

from dragoman_bench.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
