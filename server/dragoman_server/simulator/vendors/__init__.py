"""The vendors whose APIs are simulated, one module for each: the form of their errors, headers and model lists.

The name of a module is the vendor's in `api.py`. Start with `vendor.py`.
"""
