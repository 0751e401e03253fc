"""`python -m clearning` is the command line."""

from clearning.cli import main

main()
