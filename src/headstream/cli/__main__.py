"""`python -m headstream.cli`: the program, run by the current Python."""

from headstream.cli.main import main

main()
