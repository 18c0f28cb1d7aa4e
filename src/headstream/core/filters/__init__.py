"""Filters: conditions on the headers and fields of messages, in a subset of SQL with three-valued logic.

tokens       splits a filter into words, numbers, quoted strings and symbols with their positions
parser       converts tokens to an expression
expression   the expression tree, and the fields of a message that it can name
typed        converts literals to the type of the field with which they are compared; rejects impossible comparisons
program      compiles an expression to the program that core/codec/batch/stored/filter_scan.py runs over stored messages
evaluation   evaluates an expression for a decoded message, with the same result
value_summary  the possible values of a header in a range of messages
summarizing  summarizes the headers of stored messages
pruning      decides from summaries whether an expression can match, so that segments without matches are not read
filter       Filter: a parsed filter with its program, and the policy for messages to which it cannot be applied
"""
