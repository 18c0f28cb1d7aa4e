"""`python -m headstream.cli`: runs the program with the current Python interpreter."""

from headstream.cli.main import main

main()
