"""The soak: a mixed day against one gateway of two workers with Redis, with faults, kills and reloads, for hours.

It holds if memory, descriptors and tasks do not grow (`flatness.py`), if each request that an upstream received has one
row of usage which equals the simulator's ledger (`booking.py`), and if no reply is cut but by a kill.
"""
