"""The server: the sockets, the configuration and the life of the process around headstream.broker's commands."""
