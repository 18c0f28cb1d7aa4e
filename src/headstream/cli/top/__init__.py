"""`headstream top`: live rates and lags in the terminal.

command   the options; takes one sample per interval, until q or Ctrl-C
rates     computes an Overview, the changes between two Samples (pure)
view      converts an Overview to lines of a terminal
keys      reads single keys from a terminal, without waiting for Enter
"""
