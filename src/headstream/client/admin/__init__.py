"""Administration: streams, topics, committed offsets, message states; users and tokens of a server."""
