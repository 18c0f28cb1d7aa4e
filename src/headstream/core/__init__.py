"""Values and bytes: everything that needs no I/O and no clock.

    model/     the values that users hold: Message, Headers, topics, offsets, deliveries
    codec/     bytes <-> values or columns, in every format; codec/batch/ has the compiled kernels
    filters/   conditions on headers and fields
    wire/      the commands of Iggy's protocol and of Headstream's extensions, in bytes and in JSON

All packages can import it. It imports only headstream.errors. Read first: model/message.py,
codec/binary.py, wire/records.py.
"""
