"""Removes controls of the threat model, one by one, in a copy of the checkout: the test that is named must fail."""
