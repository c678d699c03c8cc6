"""`python -m dragoman_proof`."""

from dragoman_proof.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
