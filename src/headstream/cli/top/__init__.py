"""`headstream top`: live rates and lags in the terminal.

command   options; one sample per interval, until q or Ctrl-C
reading   what a log answers: a Sample
rates     two Samples -> an Overview: what changed between them (pure)
view      an Overview -> what a terminal shows
keys      single keys of a terminal, without waiting for Enter
"""
