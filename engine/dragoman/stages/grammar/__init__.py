"""The grammars of the dialects' streams: what a strict client of each accepts, frame by frame.

They share no code and no constants with the readers and writers, so that a defect of a writer is found. The tests check
every stream against them, and the gateway a share of its streams (`stages.output_validator`).
"""
