"""The fault matrix: upstreams that break a stream, and clients that leave one, at every position, in every direction.

A case is right if its reply is complete and correct, or ends with an error of the client's dialect; if no tool call
was closed that was not whole; and if its exchange was reported once. After all cases of a part, no task, socket or
connection may be left.
"""
