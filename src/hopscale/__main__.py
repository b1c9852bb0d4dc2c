"""`python -m hopscale` is the command line."""

from hopscale.cli import main

main()
