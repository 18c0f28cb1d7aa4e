"""Values and bytes: all code that needs neither I/O nor a clock.

    model/     the values of the public API: Message, Headers, topics, offsets, deliveries
    codec/     converts bytes of every format to values or columns and back; codec/batch/ has the compiled kernels
    filters/   conditions on headers and fields
    wire/      the commands of Iggy's protocol and of Headstream's extensions, in bytes and in JSON

Every package can import core, which imports only headstream.errors. Read first: model/message.py, codec/binary.py,
wire/records.py.
"""
