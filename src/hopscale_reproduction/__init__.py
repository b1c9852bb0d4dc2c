"""The paper's experiments: running, storing, comparing with the printed numbers, reporting.

This package imports `hopscale`, which never imports it. The command line finds it through the
entry-point group `hopscale.commands`.
"""
