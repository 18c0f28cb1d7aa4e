"""Filters: conditions on the headers and fields of messages, in a subset of SQL with three-valued logic.

tokens       the text as words, numbers and quoted texts, each with its position
parser       tokens -> expression
expression   the expression tree, and the fields of a message that it can name
typing       literals beside a field as values of that field; comparisons that can never hold are errors
program      expression -> the bytes that core/codec/batch/stored/filter_scan.py runs over stored messages
evaluation   the same result for a decoded message
value_summary  a summary of a header's values in some messages, and whether it can contain a given value
summarizing  the summaries of the headers of stored messages
pruning      whether an expression can be true for a message, from summaries: segments without such a message are not read
filter       Filter: a parsed filter with its program and its policy for messages that it cannot be applied to
"""
