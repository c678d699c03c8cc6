"""Commands, a module each: `add_arguments(parser)`, and `main(args, …)`, which returns the exit status."""
