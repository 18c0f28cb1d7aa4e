"""`python -m headstream.cli`: the program, by the Python that runs this."""

from headstream.cli.main import main

main()
