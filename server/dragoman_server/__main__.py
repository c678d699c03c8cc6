"""`python -m dragoman_server` is the `dragoman` command."""

import sys

from dragoman_server.cli.main import main

sys.exit(main())
