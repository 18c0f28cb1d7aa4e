"""The protocols of Iggy servers, without sockets: the older protocol (message state, CRC-32), and in vsr/ the current protocol.

    codes.py      the commands, their HTTP routes, and whether they need a login   route_matching.py   a path -> a command
    statuses.py   the errors                                                       refusals.py   status <-> error
    frames.py     the frames of a TCP byte stream (frame_scan.py: the compiled loop)
    commands/     the commands and their replies, by noun       extensions/     Headstream's own commands (codes from 10000)
    command_classes.py   all commands by code                   encodings.py    the encodings of different protocol versions
    vsr/          frames and layouts of protocol 0.11
    records.py shapes.py      the layout of commands in bytes and in JSON; each field is described once

A server over TCP:

    frames = FrameBuffer.for_requests(pool)
    for frame in frames.received(count):                       after writing into frames.writable()
        try:
            command = decode_command(frame.number, frame.payload)        DecodeError: status 3
            command.validate()                                           limits, with their status
            ... stale? logged in (command.entry().needs_login)? then the handler of type(command) gives the reply
            answer = encode_response(0, type(command).encode_reply(reply))
        except HeadstreamError as error:
            answer = encode_response(status_of(error))                   a lookup (entry().is_lookup): encode_response(0)
    frames.done()

A server over HTTP calls find_route(method, path), COMMANDS[code].decode_http(path, query, body) and the same handler, and sends
encode_http_reply(reply) with the route's success status. For an error the server sends refusal_to_json(error) with http_status().

A client sends encode_request(command.code, command.encode()), receives frames with FrameBuffer.for_responses(), and decodes a
frame with decode_refusal(status, body) or type(command).decode_reply(body). Over HTTP the client uses command.to_json() and
reply_from_json().

docs/iggy.md lists the differences from the original server, and the oddities of the original server that are reproduced.
"""
