"""The paper's experiments: run, kept, compared with its printed numbers, reported.

It imports `hopscale` and nothing there imports it; the command line finds it by the entry-point
group `hopscale.commands`.
"""
