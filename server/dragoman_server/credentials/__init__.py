"""Credentials of providers that expire: fetched, renewed, and put into requests when these are sent.

`renewal.py` decides when a credential is fetched; a module for each source fetches it. `transport.py` puts it into
requests. No credential is kept outside of this package, except in the list of texts that logs and errors mask.
"""
