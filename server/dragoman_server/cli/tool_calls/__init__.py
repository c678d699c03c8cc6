"""`dragoman check --connect --tools`: one small streamed tool call in each dialect, for each model of each provider.

The requests go through a whole gateway in this process. `differences` compares what comes back with what the profile of
the provider states, and `repairs` names the setting that makes the profile agree.
"""
