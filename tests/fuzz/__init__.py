"""Inputs as no one should make them, thrown at every verb: what is accepted is compared with an oracle.

`python -m tests.fuzz --cases 10000` draws so many, `--only tables:17 --keep FOLDER` makes one again to look at.
"""
