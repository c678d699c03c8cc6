"""`python -m dragoman_server` is the `dragoman` command."""

import sys

from .cli import main

sys.exit(main())
