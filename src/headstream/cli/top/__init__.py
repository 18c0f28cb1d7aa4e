"""`headstream top`: live rates and lags in the terminal.

command   options; one sample per interval, until q or Ctrl-C
reading   the responses of a log: a Sample
rates     two Samples -> an Overview: the changes between them (pure)
view      an Overview -> the lines of a terminal
keys      single keys of a terminal, without waiting for Enter
"""
