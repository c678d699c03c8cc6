"""One module for each kind of input. Each has a function `target(name)`."""
